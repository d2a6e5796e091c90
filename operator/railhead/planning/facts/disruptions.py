"""Disruptions: the cluster, a person or an upgrade took what the job needs. No budget of failures counts them."""

from __future__ import annotations

from railhead.contract.failure import FailureClass

# Reasons of the pod condition DisruptionTarget that a broken node causes; all others make room for somebody else.
TERMINATION_BY_KUBELET, DELETION_BY_TAINT = "TerminationByKubelet", "DeletionByTaintManager"
OF_NODES = frozenset({DELETION_BY_TAINT, "DeletionByPodGC", TERMINATION_BY_KUBELET})
POD_DELETED, POD_GONE = "PodDeleted", "PodGone"
DRIVER_GONE, INPUT_GONE, SECRET_GONE = "DriverGone", "InputGone", "SecretGone"
# Reasons in a pod's status that the kubelet sets, in some versions without the condition.
NODE_LOST = "NodeLost"
OF_KUBELETS = frozenset({NODE_LOST, "NodeShutdown", "Shutdown", "Terminated", "Preempting"})
REASONS = OF_NODES | OF_KUBELETS | {POD_DELETED, POD_GONE, DRIVER_GONE, INPUT_GONE, SECRET_GONE}


def classify_target(reason: str) -> FailureClass:
    """Of a pod whose condition DisruptionTarget has this reason."""
    return FailureClass.INFRASTRUCTURE if reason in OF_NODES else FailureClass.PREEMPTION


def is_disruption(class_: FailureClass, reason: str) -> bool:
    return class_ is FailureClass.PREEMPTION or (class_ is FailureClass.INFRASTRUCTURE and reason in REASONS)
