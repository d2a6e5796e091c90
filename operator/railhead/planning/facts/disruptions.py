"""Disruptions: the cluster, a person or an upgrade took what the job needs. No budget of failures counts them."""

from __future__ import annotations

from railhead.contract.failure import FailureClass

# Reasons of the pod condition DisruptionTarget that a broken node causes; all others make room for somebody else.
TERMINATION_BY_KUBELET, DELETION_BY_TAINT = "TerminationByKubelet", "DeletionByTaintManager"
OF_NODES = frozenset({DELETION_BY_TAINT, "DeletionByPodGC", TERMINATION_BY_KUBELET})
POD_DELETED, POD_GONE = "PodDeleted", "PodGone"
DRIVER_GONE, INPUT_GONE, SECRET_GONE = "DriverGone", "InputGone", "SecretGone"
HEAD_CUT_OFF = "HeadCutOff"
# Reasons in a pod's status that the kubelet sets, in some versions without the condition.
NODE_LOST = "NodeLost"
NODE_SHUTDOWN = "Terminated"
OF_KUBELETS = frozenset({NODE_LOST, "NodeShutdown", "Shutdown", NODE_SHUTDOWN, "Preempting"})
EVICTED = "Evicted"
REASONS = OF_NODES | OF_KUBELETS | {POD_DELETED, POD_GONE, DRIVER_GONE, INPUT_GONE, SECRET_GONE, HEAD_CUT_OFF}


def classify_target(reason: str) -> FailureClass:
    """Of a pod whose condition DisruptionTarget has this reason."""
    return FailureClass.INFRASTRUCTURE if reason in OF_NODES else FailureClass.PREEMPTION


def find_reason(target: str, kubelet: str) -> str:
    """Of a pod whose condition DisruptionTarget has the first of these reasons, and its status the second.

    The kubelet sets TerminationByKubelet also when its node shuts down and when it makes room for a critical pod.
    Only an eviction may be due to what the job uses, and only that one keeps the reason.
    """
    if target != TERMINATION_BY_KUBELET or kubelet == EVICTED:
        return target
    return kubelet if kubelet in OF_KUBELETS else NODE_SHUTDOWN


def is_disruption(class_: FailureClass, reason: str) -> bool:
    return class_ is FailureClass.PREEMPTION or (class_ is FailureClass.INFRASTRUCTURE and reason in REASONS)
