"""What a failure is: how a lost pod turns into the failure that ends its attempt, whether a disruption caused it, and
which rule of spec.failurePolicy matches it.

The driver's own report comes first, then the exit code, then the kubelet's report. A pod that is just gone counts as an
infrastructure failure. A disruption is an act of the cluster, a person or an upgrade, which took what the job needs; no
budget of failures counts it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum

from railhead.api.fit import fit, read_limit
from railhead.api.names import CONTAINER, HEAD
from railhead.api.spec import FailurePolicyRule as RuleSpec
from railhead.api.spec import TrainJobSpec
from railhead.api.status import FailureStatus, replace_failure
from railhead.contract.failure import Failure, FailureClass, FailureRule, find_rule
from railhead.contract.times import format_time
from railhead.planning.facts.reasons import NODE_REFUSED_POD
from railhead.planning.observed import Observed
from railhead.planning.pod_view import PodView, Problem

SIGKILLED = 137
KILLED_CODES = (SIGKILLED, 143)  # and SIGTERM
KILLED = "Killed"


class LossReason(StrEnum):
    """Reasons of lost pods that decide what a loss counts as. Any other reason is only shown."""

    # Of the pod condition DisruptionTarget, if a broken node causes it; all others make room for another pod.
    TERMINATION_BY_KUBELET = "TerminationByKubelet"
    DELETION_BY_TAINT = "DeletionByTaintManager"
    DELETION_BY_POD_GC = "DeletionByPodGC"
    # Of a pod's status: the kubelet sets them, in some versions without the condition.
    NODE_LOST = "NodeLost"
    NODE_SHUTDOWN = "NodeShutdown"
    SHUTDOWN = "Shutdown"
    TERMINATED = "Terminated"
    PREEMPTING = "Preempting"
    EVICTED = "Evicted"
    OOM_KILLED = "OOMKilled"
    # Of a container: its node rebooted or its runtime restarted, and nobody saw how the container ended.
    STATUS_UNKNOWN = "ContainerStatusUnknown"
    # The operator's own.
    POD_DELETED = "PodDeleted"
    POD_GONE = "PodGone"
    DRIVER_GONE = "DriverGone"
    INPUT_GONE = "InputGone"
    SECRET_GONE = "SecretGone"
    HEAD_CUT_OFF = "HeadCutOff"


OF_NODES = frozenset({LossReason.TERMINATION_BY_KUBELET, LossReason.DELETION_BY_TAINT, LossReason.DELETION_BY_POD_GC})
OF_KUBELETS = frozenset(
    {
        LossReason.NODE_LOST,
        LossReason.NODE_SHUTDOWN,
        LossReason.SHUTDOWN,
        LossReason.TERMINATED,
        LossReason.PREEMPTING,
    }
)
# Ray ends a driver whose raylet is gone at once, with this code.
CODE_WITHOUT_RAYLET = 1
# What an act of the cluster, a person or an upgrade takes, in class Infrastructure.
DISRUPTIONS = frozenset(LossReason) - {LossReason.EVICTED, LossReason.OOM_KILLED}


def choose_loss_reason(target: str, kubelet: str) -> str:
    """Returns the reason of a pod whose condition DisruptionTarget says `target`, and whose status says `kubelet`.

    The kubelet sets TerminationByKubelet also when its node shuts down and when it makes room for a critical pod.
    Only an eviction may be due to what the job uses, and only that one keeps the reason.
    """
    if target != LossReason.TERMINATION_BY_KUBELET or kubelet == LossReason.EVICTED:
        return target
    if kubelet in OF_KUBELETS:
        return kubelet
    return LossReason.TERMINATED


def is_disruption(class_: FailureClass, reason: str) -> bool:
    """Returns whether the cluster, a person or an upgrade took what the job needs."""
    return class_ is FailureClass.PREEMPTION or (class_ is FailureClass.INFRASTRUCTURE and reason in DISRUPTIONS)


def classify_pod(pod: PodView, *, reported: Failure | None = None) -> Failure:
    """Returns why a terminated or deleted pod ended. `reported`: what its driver reported, if not in its message."""
    reported = pod.outcome.failure if pod.outcome and pod.outcome.failure else reported
    # The driver knows best what happened, but for SIGTERM, of which the cluster knows the cause.
    if reported is not None and reported.class_ is not FailureClass.PREEMPTION:
        return reported
    # No container ran, so neither exit code nor message is the driver's.
    if pod.is_refused:
        return Failure(FailureClass.STARTUP, NODE_REFUSED_POD, describe_refusal(pod))
    if pod.disruption is not None:
        return _explain_disruption(pod, pod.disruption, reported)
    if reported is not None:
        return reported
    if pod.reason == LossReason.OOM_KILLED:
        return Failure(FailureClass.OUT_OF_MEMORY, LossReason.OOM_KILLED, _describe_oom_kill(pod))
    # The exit code carries the class where the termination message is lost.
    kind = FailureClass.of_exit_code(pod.exit_code)
    if kind is not None:
        return Failure(kind, kind.value, pod.message or f"Pod {pod.name} exited with code {pod.exit_code}")
    # The pod exceeded its own limits: any other eviction has a DisruptionTarget.
    if pod.reason == LossReason.EVICTED:
        return Failure(
            FailureClass.APPLICATION, LossReason.EVICTED, f"Pod {pod.name} was evicted: {pod.message[:1500]}"
        )
    reason, message = _explain(pod)
    return Failure(FailureClass.INFRASTRUCTURE, reason, message)


def _describe_oom_kill(pod: PodView) -> str:
    field = "spec.scaling.resourcesPerWorker.memory"
    if pod.role == HEAD:
        field = "spec.head.resources.memory"
    if pod.container != CONTAINER:
        field = "its memory limit in podTemplate"
    what = f"Container {pod.container} of pod {pod.name} was OOM-killed"
    return f"{what}; raise {field}, which can change while the job is suspended"


def describe_refusal(pod: PodView) -> str:
    """Describes a refused pod with the message of its node's kubelet."""
    return f"Node {pod.node or '(none)'} refused pod {pod.name} ({pod.reason}): {pod.message[:800]}"


def _explain_disruption(pod: PodView, disruption: Problem, reported: Failure | None) -> Failure:
    """Returns the disruption as a failure. Its reason is the cluster's, also when the driver has reported SIGTERM."""
    why = " ".join(text for text in (disruption.message, pod.message if reported is None else "") if text)
    message = f"Pod {pod.name} was disrupted: {why[:1500] or disruption.reason}"
    if reported is not None:
        message = f"{message}; {reported.message}"
    if disruption.reason in OF_NODES:
        class_ = FailureClass.INFRASTRUCTURE
    else:
        class_ = FailureClass.PREEMPTION
    return Failure(class_, choose_loss_reason(disruption.reason, pod.reason) or "DisruptionTarget", message)


def _explain(pod: PodView) -> tuple[str, str]:
    """Returns reason and message for a pod whose driver reported nothing."""
    if pod.reason in OF_KUBELETS:
        return pod.reason, f"Pod {pod.name} was terminated by the kubelet: {pod.message[:1500] or pod.reason}"
    if pod.is_live:
        return LossReason.NODE_LOST, f"Pod {pod.name} does not answer its driver; check node {pod.node or '(none)'}"
    # Before the unknown end, which the kubelet also gives a container that it never started.
    if pod.is_deleting:
        return LossReason.POD_DELETED, f"Pod {pod.name} was deleted"
    if pod.reason == LossReason.STATUS_UNKNOWN:
        return pod.reason, _describe_reboot(pod)
    # A driver that succeeds writes its message first, so something else has ended the process.
    if pod.exit_code == 0:
        return "NoFinalReport", f"Pod {pod.name} exited with code 0 but without the driver's final report"
    if pod.exit_code in KILLED_CODES:
        return KILLED, f"Pod {pod.name} was killed (exit code {pod.exit_code})"
    message = pod.message.strip() or _describe_exit(pod)
    return pod.reason or "PodFailed", message[:1500]


def _describe_exit(pod: PodView) -> str:
    what = f"Pod {pod.name} exited with code {pod.exit_code}"
    if pod.role == HEAD and pod.exit_code == CODE_WITHOUT_RAYLET:
        return f"{what} before its driver could tell why, as when the raylet of Ray's head dies; see the pod's log"
    return what


def _describe_reboot(pod: PodView) -> str:
    node = pod.node or "(none)"
    return f"Pod {pod.name} ended unseen by the kubelet; node {node} has rebooted, or its container runtime restarted"


def explain_loss(observed: Observed, pod: PodView, *, because: str = "") -> FailureStatus:
    """Returns the failure that ends the current attempt because of this pod; `because` adds why it ends the attempt."""
    failure = classify_pod(pod)
    if because:
        failure = replace(failure, message=_add_reason(failure.message, because))
    return _build_status_of_pod(observed, failure, pod)


def explain_head_loss(observed: Observed, head: PodView) -> FailureStatus:
    """Explains the loss of a head; without a termination message, its driver's last report counts."""
    return _build_status_of_pod(observed, classify_pod(head, reported=_find_reported(observed)), head)


def is_removed_unstarted(observed: Observed, head: PodView) -> bool:
    """Returns whether the head is being deleted, by the operator itself or by anyone, and never ran as far as is known:
    then nothing is lost with it."""
    if observed.was_head_up or head.is_running or not head.is_deleting or head.disruption is not None:
        return False
    # The kubelet gives a container that it never started the same end as one whose node has rebooted.
    has_own_end = head.exit_code is not None and head.reason != LossReason.STATUS_UNKNOWN
    return not has_own_end and _find_reported(observed) is None


def explain_kept_head(observed: Observed, head: PodView) -> FailureStatus:
    """Explains the end of an attempt whose head never ran and is not gone in time: it keeps the name that the next one
    would have."""
    why = f"node {head.node or '(none)'} does not end it"
    if head.is_kept_by_finalizer:
        why = f"its finalizer {head.finalizer} keeps it"
    message = f"Pod {head.name} was deleted before it ran, and {why}; the next attempt has another name"
    return _build_status_of_pod(observed, Failure(FailureClass.STARTUP, LossReason.POD_DELETED, message), head)


def explain_gone(observed: Observed, name: str) -> FailureStatus:
    """Explains the loss of a head that is gone."""
    failure = _find_reported(observed) or Failure(
        FailureClass.INFRASTRUCTURE, LossReason.POD_GONE, f"Pod {name} is gone"
    )
    return _build_status(observed, failure, pod=name, node=observed.status.head.node, container=CONTAINER)


def explain_decision(observed: Observed, failure: Failure, *, pod: PodView | None = None) -> FailureStatus:
    """Returns a failure that the operator itself decides on. `pod`: the pod that caused it, else the head."""
    seen = pod or observed.head
    return _build_status(observed, failure, pod=seen.name if seen else "", node=seen.node if seen else "")


def blame_application(failure: FailureStatus, *, times: int) -> FailureStatus:
    """Turns the failure into one of the job itself, since it has happened several times in a row."""
    message = _add_reason(failure.message, f"{times} times in a row without a new checkpoint")
    is_memory = failure.class_ is FailureClass.OUT_OF_MEMORY
    class_ = failure.class_ if is_memory else FailureClass.APPLICATION
    return replace_failure(failure, class_=class_, message=message)


def _add_reason(message: str, why: str) -> str:
    """Adds the reason to the message, which is cut so that the status has room for both."""
    room = read_limit(FailureStatus, "message") - len(f" ({why})")
    return f"{message[:room]} ({why})"


def _find_reported(observed: Observed) -> Failure | None:
    """Returns the failure that the driver reported as the end of the attempt."""
    if observed.outcome:
        return observed.outcome.failure
    return None


def _build_status_of_pod(observed: Observed, failure: Failure, pod: PodView) -> FailureStatus:
    return _build_status(
        observed, failure, pod=pod.name, node=pod.node, container=pod.container, exit_code=pod.exit_code
    )


def _build_status(
    observed: Observed, failure: Failure, *, pod: str, node: str, container: str = "", exit_code: int | None = None
) -> FailureStatus:
    # A foreign pod is never the suspect.
    suspect = next((each for each in observed.pods if each.name == failure.suspect_pod), None)
    suspect_pod = ""
    suspect_node = ""
    if suspect:
        suspect_pod = suspect.name
        suspect_node = suspect.node
    values = {
        **asdict(failure),
        "attempt": observed.attempt,
        "pod": pod,
        "node": node,
        "container": container,
        "exit_code": exit_code,
        "suspect_pod": suspect_pod,
        "suspect_node": suspect_node,
        "time": format_time(observed.now),
    }
    return fit(FailureStatus, values)


def apply_rules(spec: TrainJobSpec, failure: FailureStatus) -> tuple[FailureStatus, str]:
    """Returns the failure with the action of the first rule that matches, and the rule's path; empty without one."""
    # For these classes no rule may change what follows: another head owns the run, or the job itself has asked for the
    # end.
    if not failure.class_.policy.can_have_rule:
        return failure, ""
    rules = build_rules(spec)
    number = find_rule(rules, failure.class_, failure.reason, failure.process_exit_code)
    if number is None:
        return failure, ""
    return replace_failure(failure, action=rules[number].action), f"failurePolicy.rules[{number}]"


def build_rules(spec: TrainJobSpec) -> tuple[FailureRule, ...]:
    if spec.failure_policy:
        return tuple(_build_rule(rule) for rule in spec.failure_policy.rules)
    return ()


def _build_rule(rule: RuleSpec) -> FailureRule:
    codes = rule.on_exit_codes
    if codes:
        exit_codes = tuple(codes.values)
    else:
        exit_codes = ()
    return FailureRule(
        rule.action,
        classes=tuple(rule.on_class or ()),
        reasons=tuple(rule.on_reason or ()),
        exit_codes=exit_codes,
        is_not_in=codes is not None and codes.operator == "NotIn",
    )
