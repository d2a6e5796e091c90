"""Turns raw pods into `PodView`s: the few facts that decisions need. Pure.

It never raises: an error here would end the watch of all pods.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from railhead.api import names
from railhead.api.ray_container import read_ray_container
from railhead.api.status import MAX_AVOIDED_NODES
from railhead.contract.numbers import MAX_INT32
from railhead.contract.text import clean_line, clean_text
from railhead.contract.times import parse_time
from railhead.json_object import Object, part, parts
from railhead.planning.facts.pod_failure import LossReason
from railhead.planning.facts.reasons import HELD_BY_KUEUE, SCHEDULING_GATED, UNSCHEDULABLE
from railhead.planning.pod_view import PodView, Problem
from railhead.resources.queues.kueue import POD_GATE, QUEUE_NAME

NAMED = 3  # scheduling gates
# A container waiting with one of these reasons has not started and will not without intervention.
STUCK = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
    }
)
OUTCOME_OF_NO_INTEREST = frozenset({"", "Error", "Completed"})
# Nobody saw how the container ended: the kubelet finds no such container any more, or containerd found it ended when it
# started (internal/cri/server: unknownExitReason, with code 255).
UNKNOWN_ENDS = frozenset({LossReason.STATUS_UNKNOWN.value, "Unknown"})
# The code of such an end without a reason of its own: of CRI-O after a reboot (internal/oci/runtime_oci.go:
# updateContainerStatus), and of containerd when a shim has died (core/runtime/v2/shim.go: cleanupAfterDeadShim).
UNKNOWN_CODE = 255
# A program of the user that the driver imports may exit with -1 as well, and does so at each start.
LEAST_UNKNOWN_SECONDS = 60
# containerd's reason (internal/cri/server: errorStartReason) and that of other runtimes. With restartPolicy Never, the
# kubelet ends the pod.
START_ERRORS = frozenset({"StartError", "ContainerCannotRun"})
# What runc and crun say about a command, folder or user that the image lacks, about a mount that does not fit it, and
# about too little memory to start: they do so on every node.
OF_JOB = re.compile(
    r'exec: "|exec format error|executable file .{0,200}not found|chdir to cwd|unable to find user|'
    r"Are you trying to mount|OOM-killed|memory limit too low"
)
# Whoever deletes a pod may write any number.
GRACE_LIMIT_SECONDS = 31_536_000
MOST_CODE = MAX_INT32


class Owner(NamedTuple):
    """The TrainJob of a pod. Its namespace is the pod's: whoever may create pods anywhere may write the uid of any job
    into them."""

    namespace: str
    uid: str


NO_OWNER = Owner("", "")


@dataclass(frozen=True, slots=True)
class PodRecord:
    """All that is kept of a pod.

    Attributes:
        owner: the TrainJob that controls it, or NO_OWNER.
        view: its facts.
        claims: of a pod without owner: the TrainJob whose label it carries, or NO_OWNER.
    """

    owner: Owner
    view: PodView
    claims: Owner = NO_OWNER


def record_pod(pod: Object) -> PodRecord:
    metadata = part(pod, "metadata")
    uid = owner_uid(pod)
    namespace = str(metadata.get("namespace"))
    if uid:
        return PodRecord(Owner(namespace, uid), observe_pod(pod))
    label = part(metadata, "labels").get(names.LABEL_JOB_UID)
    return PodRecord(NO_OWNER, observe_pod(pod), claims=Owner(namespace, str(label)) if label else NO_OWNER)


def has_own_name(view: PodView, job: str, uid: str) -> bool:
    """Returns whether the pod is one that the operator made for this job. A copy of a pod keeps its labels, and
    often its owner; but only the names of the job's own pods follow from their labels."""
    return view.name == names.pod_name(job, uid, view.role, view.attempt, view.slot, view.round)


def observe_pod(pod: Object) -> PodView:
    """Returns the view of one of our pods: its identity from the labels, its state from the status."""
    metadata = part(pod, "metadata")
    spec = part(pod, "spec")
    status = part(pod, "status")
    labels = part(metadata, "labels")
    node = _word(spec.get("nodeName"))
    state = _container_state(status)
    container, ended = _end(state, status)
    conditions = {str(each.get("type")): each for each in parts(status, "conditions")}
    scheduled = part(conditions, "PodScheduled")
    disruption = _disruption(conditions)
    running = part(state, "running")
    # Kueue ends a pending pod whose node it has replaced by another one: pkg/controller/tas/node_controller.go.
    by_kueue = part(conditions, "TerminatedByKueue")
    deleted = metadata.get("deletionTimestamp")
    avoids: tuple[str, ...] = ()
    if not node:  # of no interest once the pod has a node
        avoids = _avoided_nodes(metadata)
    return PodView(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid")),
        role=str(labels.get(names.LABEL_ROLE, "")),
        attempt=_number(labels.get(names.LABEL_ATTEMPT), 0),
        slot=_number(labels.get(names.LABEL_SLOT), -1),
        round=_number(labels.get(names.LABEL_ROUND), 0),
        phase=str(status.get("phase") or "Pending"),
        is_running=bool(running) and status.get("phase") == "Running",
        is_deleting=bool(deleted),
        node=node,
        exit_code=_exit_code(ended),
        reason=_reason(status, ended, is_disrupted=disruption is not None) or _word(by_kueue.get("reason")),
        message=_words(ended.get("message") or status.get("message") or by_kueue.get("message")),
        started_at=_time(running.get("startedAt")),
        problem=_problem(metadata, spec, status, scheduled),
        finished_at=_finished_at(ended, conditions),
        disruption=disruption,
        container=container,
        created_at=_time(metadata.get("creationTimestamp")),
        scheduled_at=_scheduled_at(scheduled),
        deletion_timestamp=_time(deleted),
        finalizer=_finalizer(metadata),
        grace_seconds=_grace_seconds(metadata),
        is_silent=_is_silent(conditions, state, disruption),
        avoids=avoids,
        cpu_limit=_cpu_limit(spec),
        is_refused=_is_refused(status, disruption) or _cannot_start(ended),
        has_begun=_has_begun(spec, status, state),
    )


def _exit_code(ended: Object) -> int | None:
    code = ended.get("exitCode")
    if isinstance(code, int) and abs(code) <= MOST_CODE:
        return code
    return None


def _grace_seconds(metadata: Object) -> int:
    grace = metadata.get("deletionGracePeriodSeconds")
    if isinstance(grace, int):
        return min(grace, GRACE_LIMIT_SECONDS)
    return 0


def owner_uid(obj: Object) -> str:
    """Returns the uid of the TrainJob that controls the object, or ""."""
    for owner in parts(part(obj, "metadata"), "ownerReferences"):
        # Kubeflow has a TrainJob, too.
        group = str(owner.get("apiVersion") or "").partition("/")[0]
        if owner.get("controller") and (group, owner.get("kind")) == (names.GROUP, names.KIND):
            return str(owner.get("uid") or "")
    return ""


def _container_state(status: Object) -> Object:
    """Returns the state of the container ray; its first end counts, even if a policy of the cluster had it restarted.

    Railhead's containers never restart in their pod: a second driver in the same pod would escape every limit.
    """
    container = read_ray_container(status, "containerStatuses")
    # `lastState` has the first end if a policy of the cluster has restarted the container.
    ended = part(part(container, "lastState"), "terminated")
    if ended:
        return {"terminated": ended}
    return part(container, "state")


def _end(state: Object, status: Object) -> tuple[str, Object]:
    """Returns the container whose end is the pod's, and that end: ray, or an init container that kept it from
    starting."""
    ended = part(state, "terminated")
    if ended or status.get("phase") != "Failed":
        return names.CONTAINER, ended
    for container in parts(status, "initContainerStatuses"):
        end = part(part(container, "state"), "terminated")
        if not end.get("exitCode"):
            continue
        name = _word(container.get("name"))
        if name == names.FETCH_CONTAINER:
            return name, end
        message = f"init container {name} ended with code {end['exitCode']}: {end.get('message') or ''}".strip(" :")
        # Its exit codes are not ours.
        return name, {**end, "message": message, "exitCode": None}
    return names.CONTAINER, {}


def _disruption(conditions: Object) -> Problem | None:
    target = part(conditions, "DisruptionTarget")
    if target.get("status") != "True":
        return None
    return Problem(_word(target.get("reason")), _words(target.get("message")))


def _is_silent(conditions: Object, state: Object, disruption: Problem | None) -> bool:
    """Kubernetes has marked the pod because its node does not respond: not ready, although its container runs.

    The node lifecycle controller (pkg/controller/util/node: MarkPodsNotReady) turns the status of a pod that was ready,
    which has no reason, and adds none. A kubelet always gives one (pkg/kubelet/status/generate.go), such as
    ReadinessGatesNotReady or ContainersNotReady: its node responds, whatever a readiness gate or a sidecar waits for,
    and whoever has tainted the node.
    """
    ready = part(conditions, "Ready")
    is_marked = bool(state.get("running")) and ready.get("status") == "False" and not ready.get("reason")
    is_tainted = disruption is not None and disruption.reason == LossReason.DELETION_BY_TAINT
    return is_marked and (is_tainted or part(conditions, "ContainersReady").get("status") == "True")


def _avoided_nodes(metadata: Object) -> tuple[str, ...]:
    text = clean_line(str(part(metadata, "annotations").get(names.AVOIDED_NODES) or ""))
    return tuple(name[: names.MAX_NAME] for name in text.split(",")[:MAX_AVOIDED_NODES] if name)


def _cpu_limit(spec: Object) -> str:
    limits = part(part(read_ray_container(spec), "resources"), "limits")
    return str(limits.get("cpu") or "")[:32]


def _is_refused(status: Object, disruption: Problem | None) -> bool:
    """Returns whether the node refused the pod: its kubelet sets phase, reason and message only. A pod that is evicted
    while it starts never ran either; any other component that ends a pod names itself in the condition."""
    if status.get("phase") != "Failed" or not status.get("reason"):
        return False
    if disruption is not None and disruption.reason != LossReason.TERMINATION_BY_KUBELET:
        return False
    statuses = [*parts(status, "initContainerStatuses"), *parts(status, "containerStatuses")]
    states = [part(each, "state") for each in statuses]
    return not any(state.get("running") or state.get("terminated") for state in states)


def _cannot_start(ended: Object) -> bool:
    """Returns whether the node's container runtime could not start the container, as with a broken driver or device,
    and nothing is wrong with what the image and the template name."""
    if not ended:
        return False
    if _word(ended.get("reason")) not in START_ERRORS:
        return False
    message = str(ended.get("message") or "")[:8192]
    return not OF_JOB.search(message)


def _reason(status: Object, ended: Object, *, is_disrupted: bool) -> str:
    """Returns the container's reason, if it says more than that the container ended. A disruption explains more."""
    reason = _word(ended.get("reason"))
    of_pod = _word(status.get("reason"))
    if _is_unseen(ended):
        return of_pod or LossReason.STATUS_UNKNOWN
    if reason in OUTCOME_OF_NO_INTEREST:
        return of_pod
    if is_disrupted:
        return of_pod or reason
    return reason


def _is_unseen(ended: Object) -> bool:
    """Returns whether nobody saw how the container ended, as when its node has rebooted."""
    if _word(ended.get("reason")) in UNKNOWN_ENDS:
        return True
    if ended.get("exitCode") != UNKNOWN_CODE or ended.get("reason") != "Error" or ended.get("message"):
        return False
    started = _time(ended.get("startedAt"))
    finished = _time(ended.get("finishedAt"))
    if started is None or finished is None:
        return False
    return (finished - started).total_seconds() >= LEAST_UNKNOWN_SECONDS


def _finished_at(ended: Object, conditions: Object) -> datetime | None:
    """Returns when the container ended, by its node's clock. Of a container whose end was not seen, the kubelet may
    know no time but that of its report."""
    if not ended:
        return None
    at = _time(ended.get("finishedAt"))
    if at is None and _word(ended.get("reason")) in UNKNOWN_ENDS:
        return _time(part(conditions, "ContainersReady").get("lastTransitionTime"))
    return at


def _has_begun(spec: Object, status: Object, ray: Object) -> bool:
    """Returns whether the pod does something of its own: the ray container runs or has ended, or an init container
    runs that has an end, such as one that copies a dataset."""
    if ray.get("running") or ray.get("terminated"):
        return True
    sidecars = {
        _word(each.get("name")) for each in parts(spec, "initContainers") if each.get("restartPolicy") == "Always"
    }
    own = (each for each in parts(status, "initContainerStatuses") if _word(each.get("name")) not in sidecars)
    return any(part(each, "state").get("running") for each in own)


def _scheduled_at(scheduled: Object) -> datetime | None:
    """Returns when the pod was scheduled, by the API server's clock: it adds the condition when the scheduler binds
    the pod (pkg/registry/core/pod/storage: assignPod), and the kubelet keeps its time."""
    if scheduled.get("status") == "True":
        return _time(scheduled.get("lastTransitionTime"))
    return None


def _problem(metadata: Object, spec: Object, status: Object, scheduled: Object) -> Problem | None:
    reason = scheduled.get("reason") if scheduled.get("status") == "False" else None
    if reason == UNSCHEDULABLE:
        return Problem(UNSCHEDULABLE, _words(scheduled.get("message")) or "no node fits")
    gates = parts(spec, "schedulingGates")
    # A pod keeps this condition after its last gate is gone, until the scheduler looks at it.
    if reason == SCHEDULING_GATED and gates:
        return _explain_gates(metadata, [_word(each.get("name")) for each in gates])
    for container in [*parts(status, "initContainerStatuses"), *parts(status, "containerStatuses")]:
        waiting = part(part(container, "state"), "waiting")
        if (stuck := str(waiting.get("reason") or "")) in STUCK:
            return Problem(
                stuck, f"container {_word(container.get('name'))}: {_words(waiting.get('message')) or stuck}"
            )
    return None


def _finalizer(metadata: Object) -> str:
    if "deletionTimestamp" not in metadata:
        return ""
    found = metadata.get("finalizers")
    if not isinstance(found, list) or not found:
        return ""
    return _word(found[0])


def _explain_gates(metadata: Object, gates: Sequence[str]) -> Problem:
    if POD_GATE in gates:
        queue = _word(part(metadata, "labels").get(QUEUE_NAME))
        where = "no LocalQueue"
        if queue:
            where = f"LocalQueue {queue}"
        message = f"Kueue's integration for pods manages it, in {where} (scheduling gate {POD_GATE})"
        return Problem(HELD_BY_KUEUE, message)
    message = f"the pod has scheduling gates ({', '.join(gates[:NAMED])}), which the controller that set them removes"
    return Problem(SCHEDULING_GATED, message)


def _word(value: object) -> str:
    """Returns a name or a reason, of which a terminal shows all characters."""
    return clean_line(str(value or "")[:253])


def _words(value: object) -> str:
    """Returns a message, likewise; it may have lines."""
    return clean_text(str(value or "")[:8192])


def _number(text: object, default: int) -> int:
    # `isdigit` alone accepts digits of other scripts, which int() reads, and superscripts, which it does not.
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return default


def _time(text: object) -> datetime | None:
    if isinstance(text, str):
        return parse_time(text)
    return None
