"""Why a job waits, is slow, hangs or failed: the findings about one snapshot, the most important first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.api.scaling import Scaling
from railhead.api.spec import find_default_reset_seconds
from railhead.api.status import JobStatus
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.causes import choose_cause, read_causes
from railhead.client.explain.save_advice import describe_risk, find_save_advice
from railhead.client.explain.slowness import explain_slowness
from railhead.client.submit.code_map import is_held
from railhead.contract.failure import FailureClass
from railhead.contract.metric_rule import METRIC_NOT_FINITE, WITHOUT_RULE
from railhead.contract.times import format_time, parse_time
from railhead.json_object import part, text
from railhead.planning.facts.charged_failures import count_charged
from railhead.planning.facts.reasons import CANNOT_START, GIVEN_UP, STATUS_DENIED, THAT_PASS

STALE = timedelta(minutes=15)
NO_CHECKPOINT = timedelta(hours=1)
REPEATED = timedelta(minutes=3)  # the operator tries a denied write again after a minute at most
DEFAULT_MANAGER = "railhead.dev/operator"
DEFAULT_BACKOFF_LIMIT = 3
STARTING = ("ContainerCreating", "PodInitializing")
# As the table of causes has it; the resource that the scheduler names replaces memory.
MEMORY = "scaling.resourcesPerWorker.memory=SIZE"
INSUFFICIENT = re.compile(r"Insufficient (cpu|memory|ephemeral-storage)\b")  # in the scheduler's words
# Conditions that are good when True.
NEGATIVE = (types.RESUMABLE, types.END_NOTICE, types.RAY_TESTED)
# Conditions that `_main` does not read.
OTHERS = (
    *(types.HANG_SUSPECTED, types.STORAGE_UNAVAILABLE, types.METRIC_RULE_FIRED),
    *(types.CPU_LIMITED, types.CHECKPOINT_FALLBACK),
    *(types.RESUMABLE, types.DELETE_DENIED, types.QUEUE_UNREACHABLE, types.FOREIGN_PODS),
    *(types.END_NOTICE, types.RAY_TESTED),
)


@dataclass(frozen=True)
class Finding:
    """One answer to "why".

    Attributes:
        reason: CamelCase; a reason of a condition, a pod or a failure, or one that only the command finds.
        cause, remedy: a sentence each.
        message: what the component that found it says; "" = nothing more.
        since: RFC 3339; "" = not known.
        doc: the section of the documentation that explains it, such as how-to/see-why.md#title.
    """

    reason: str
    cause: str
    remedy: str
    message: str = ""
    since: str = ""
    doc: str = ""


def explain_job(snapshot: JobSnapshot) -> list[Finding]:
    """Returns at least one finding; the first one explains the job's state, the others what else to know."""
    found: dict[str, Finding] = {}
    for finding in (*_main(snapshot), *_pods(snapshot), *_conditions(snapshot, OTHERS), *_seen(snapshot)):
        found.setdefault(finding.reason, finding)
    if not found:
        if snapshot.status.has_condition(types.RUNNING):
            reason = "Training"
        else:
            reason = snapshot.status.phase or "Pending"
        return [_make(snapshot, reason)]
    return list(found.values())


def _make(
    snapshot: JobSnapshot, reason: str, message: str = "", since: str | None = "", class_: FailureClass | None = None
) -> Finding:
    status = snapshot.status
    cause = choose_cause(_choose_row(snapshot, reason, message, class_), class_)
    short = INSUFFICIENT.search(message)
    if cause.assignment == MEMORY and short is not None:
        cause = replace(cause, assignment=f"scaling.resourcesPerWorker.{short[1]}=AMOUNT")
    remedy = cause.write_remedy(
        snapshot.name, is_finished=status.is_finished, has_checkpoint=status.checkpoint is not None
    )
    return Finding(reason, cause.sentence, remedy, message.strip(), since or "", cause.doc)


def _is_attempt_lost(status: JobStatus) -> bool:
    return status.failure is not None and status.failure.attempt == status.attempt


def _have_all_nodes(snapshot: JobSnapshot) -> bool:
    """Returns whether the head and all workers exist and are on nodes: what the scheduler said before is over."""
    pods = snapshot.current_pods
    return 0 < snapshot.status.workers.desired < len(pods) and all(pod.node for pod in pods)


def _is_of_gone_pod(snapshot: JobSnapshot, reason: str, message: str) -> bool:
    """Returns whether a condition has what the kubelet said about a pod that no other pod of the attempt has now.
    The operator takes it back when its successor is up; that one may pull its image for minutes."""
    if snapshot.status.is_finished or f" {CANNOT_START}: " not in message or reason in THAT_PASS:
        return False
    return all(pod.reason in ("", *STARTING) for pod in snapshot.current_pods)


def _choose_row(snapshot: JobSnapshot, reason: str, message: str, class_: FailureClass | None) -> str:
    """Returns the row of the table of causes: the reason's own one, or a variant where that would be false."""
    status = snapshot.status
    if reason == "Restarting":
        if _is_attempt_lost(status):
            return reason
        return "TrainingStartsAgain"
    failure = status.failure
    is_past = failure is not None and (status.is_finished or failure.attempt < status.attempt)
    if class_ is not None and is_past and reason in GIVEN_UP and reason not in read_causes()["failures"]:
        # The rows of these reasons say what keeps the pods of this attempt from starting.
        return ""
    if reason == "Suspended" and snapshot.is_deleting:
        return "SuspendedForGood"
    if reason == "Suspended" and status.phase == "Queued":
        return "SuspendedByQueue"
    if reason == "Succeeded" and status.checkpoint is None:
        return "SucceededWithoutCheckpoint"
    if reason == "SucceededNotFinite" and status.checkpoint is None:
        return "NotFiniteWithoutCheckpoint"
    if _is_of_gone_pod(snapshot, reason, message):
        return "PodReplaced"
    if reason == "Unschedulable" and _have_all_nodes(snapshot):
        return "NodesFound"
    if reason == "Unschedulable" and "persistentvolumeclaim" in message.lower():
        return "ClaimNotUsable"
    if reason == "Unschedulable" and INSUFFICIENT.search(message):
        return "TooLittleLeft"
    if reason == "Unschedulable" and "Insufficient " in message:
        return "DevicesMissing"
    return reason


def _main(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields what the phase and the conditions Failed, Complete, Stalled, Suspended and Reconciling say."""
    status = snapshot.status
    if snapshot.is_deleting:
        yield _make(snapshot, "BeingDeleted", since=text(snapshot.job["metadata"], "deletionTimestamp"))
    yield from _denied_status(snapshot)
    if text(snapshot.spec, "managedBy") not in ("", DEFAULT_MANAGER):
        yield _make(snapshot, "ManagedElsewhere", f"spec.managedBy is {text(snapshot.spec, 'managedBy')}")
        return
    if is_held(snapshot.job) and not status.is_finished:
        yield _make(snapshot, "CodePending", since=text(snapshot.job["metadata"], "creationTimestamp"))
    is_changed = snapshot.job["metadata"].get("generation", 0) > status.observed_generation  # or deleted
    if is_changed and not snapshot.is_deleting and not status.is_finished:
        if status.observed_generation > 0:
            since = ""
        else:
            since = text(snapshot.job["metadata"], "creationTimestamp")
        yield _make(snapshot, "NotObserved", since=since)
    if status.has_condition(types.COMPLETE):
        reason = "Succeeded"
        if status.reason_of(types.METRIC_RULE_FIRED) == METRIC_NOT_FINITE:
            reason = "SucceededNotFinite"
        yield _make(snapshot, reason, since=status.completion_time)
        return
    if status.has_condition(types.FAILED):
        yield from _failure(snapshot)
        return
    if status.phase == "Queued":
        yield from _conditions(snapshot, (types.SUSPENDED,))
    else:
        yield from _conditions(snapshot, (types.STALLED, types.SUSPENDED, types.RECONCILING))
    if status.has_condition(types.RECONCILING):
        yield from _failure(snapshot)
        yield from _restart_in_place(snapshot)


def _denied_status(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields what only an event can say, as long as it is repeated and the status has not been written since."""
    denied = [event for event in snapshot.events if event.reason == STATUS_DENIED and event.at is not None]
    written_at = _find_last_write(snapshot.status)
    for event in denied[-1:]:
        if event.at is None or (written_at is not None and written_at >= event.at):
            continue
        if snapshot.now - event.at <= REPEATED:
            yield _make(snapshot, STATUS_DENIED, event.message, format_time(event.at))


def _find_last_write(status: JobStatus) -> datetime | None:
    """Returns the newest time in the status, which was written then or later."""
    stamps = [each.last_transition_time for each in status.conditions]
    stamps.append(status.progress.update_time)
    if status.goodput is not None:
        stamps.append(status.goodput.time)
    return max((at for at in map(parse_time, stamps) if at is not None), default=None)


def _failure(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields the last failure; of an unfinished job only if it is that of this or the previous attempt."""
    status = snapshot.status
    failure = snapshot.status.failure
    if failure is None:
        yield from _conditions(snapshot, (types.FAILED,))
        return
    if not status.is_finished and failure.attempt < status.attempt - 1:
        return
    where = f" (attempt {failure.attempt}, {failure.class_}" + (f", node {failure.node})" if failure.node else ")")
    yield _make(snapshot, failure.reason, failure.message + where, failure.time, failure.class_)


def _restart_in_place(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields what the worker group of this attempt restarts from, in the pods that it has."""
    status = snapshot.status
    restart = status.progress.restart
    if status.phase != "Restarting" or _is_attempt_lost(status):
        return
    if restart is None or status.progress.attempt != status.attempt:
        return
    where = f" (restart {restart.number} of attempt {status.attempt}, {restart.class_})"
    yield _make(snapshot, restart.reason, restart.message + where, restart.time, restart.class_)


def _pods(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields why pods of the current attempt do not run, by reason, each with one pod as an example."""
    if snapshot.status.is_finished:
        return
    for pod in snapshot.current_pods:
        if pod.reason in STARTING or (pod.phase == "Pending" and pod.reason and not pod.is_deleting):
            alike = sum(each.reason == pod.reason for each in snapshot.current_pods)
            who = f"pod {pod.name}" + (f" and {alike - 1} more" if alike > 1 else "")
            yield _make(snapshot, pod.reason, f"{who}: {pod.message}" if pod.message else who)


def _conditions(snapshot: JobSnapshot, wanted: Iterable[str]) -> Iterator[Finding]:
    """Yields those of these types that are not as they are in a job without trouble."""
    for each in filter(None, map(snapshot.status.find_condition, wanted)):
        # MetricRuleFired is False then, and otherwise absent.
        has_no_rule = each.reason in WITHOUT_RULE
        if has_no_rule or each.status == ("False" if each.type in NEGATIVE else "True"):
            yield _make(snapshot, each.reason, each.message, each.last_transition_time)


def _seen(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields what follows from the other fields of the status."""
    status = snapshot.status
    if status.stuck_pods:
        names = ", ".join(f"{pod.name} on {pod.node or '(none)'}" for pod in status.stuck_pods[:3])
        yield _make(snapshot, "PodsStuck", names, status.stuck_pods[0].since)
    if status.is_finished:
        return
    if status.avoided_nodes:
        nodes = (f"{node.name} ({node.reason}, until {node.expiration_time or '?'})" for node in status.avoided_nodes)
        yield _make(snapshot, "NodesAvoided", ", ".join(nodes), status.avoided_nodes[0].since)
    running_since = status.true_since(types.RUNNING)
    if running_since is not None:
        yield from _running(snapshot, running_since)
    yield from _last_try(snapshot)


def _last_try(snapshot: JobSnapshot) -> Iterator[Finding]:
    """Yields a finding if backoffLimit is used up, and training since then has not made it full again."""
    status = snapshot.status
    limit = snapshot.spec.get("backoffLimit", DEFAULT_BACKOFF_LIMIT)
    reset = _find_reset_seconds(snapshot)
    if not isinstance(limit, int) or reset is None:
        return
    used = count_charged(status, snapshot.now, reset_seconds=reset, committed=status.newest_index)
    if 0 < limit <= used:
        yield _make(snapshot, "LastTry", f"{used} of {limit} failures have happened")


def _find_reset_seconds(snapshot: JobSnapshot) -> int | None:
    """Returns spec.backoffResetSeconds, or its default; None if another version wrote something else there."""
    reset = snapshot.spec.get("backoffResetSeconds")
    if isinstance(reset, int):
        return reset
    try:
        return find_default_reset_seconds(Scaling.model_validate(part(snapshot.spec, "scaling")))
    except ValueError:
        return None


def _running(snapshot: JobSnapshot, since: datetime) -> Iterator[Finding]:
    status = snapshot.status
    now = snapshot.now
    reported = parse_time(status.progress.update_time)
    if reported is not None and now - max(reported, since) > STALE:
        yield _make(snapshot, "ReportsStale", since=status.progress.update_time)
    if status.checkpoint is None and now - since > NO_CHECKPOINT:
        yield _make(snapshot, "NoCheckpoint", describe_risk(snapshot), format_time(since))
    for reason, message in (*explain_slowness(status), *find_save_advice(snapshot)):
        yield _make(snapshot, reason, message)
    slow = None
    if status.progress.attempt == status.attempt:
        slow = status.progress.slow_ranks
        if status.progress.finishing:
            yield _make(snapshot, "RunFinishes", status.progress.finishing)
    if slow:
        names = ", ".join(f"rank {each.rank} ({each.pod} on {each.node or '(none)'}) at {each.score}" for each in slow)
        yield _make(snapshot, "SlowRank", names, min(each.since or "" for each in slow))
