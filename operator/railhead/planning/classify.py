"""Turns the facts about a lost head or worker pod into a failure of a class.

The driver's own word comes first, then the exit code, then what the kubelet says. A pod
that is simply gone was lost to the infrastructure.
"""

from __future__ import annotations

from railhead.api.names import CONTAINER
from railhead.api.status import FailureStatus
from railhead.contract.exit_codes import CLASS_OF_CODE, CODE_OF_CLASS
from railhead.planning.observed import Observed
from railhead.planning.pod_view import PodView
from railhead.planning.status_write import format_time

APPLICATION_BUDGET = frozenset({"Application", "OutOfMemory"})
STARTUP, DEADLINE = "Startup", "DeadlineExceeded"
# Fenced: it was no attempt of its own, a later one had the run already. Startup: it trained nothing and lost nothing.
NO_BUDGET = frozenset({"Fenced", STARTUP})


def _kind(pod: PodView) -> tuple[str, str, str]:
    """(class, reason, message) of an ended or vanishing pod."""
    outcome = pod.outcome
    if outcome is not None and outcome.outcome in CODE_OF_CLASS:
        return outcome.outcome, outcome.reason or outcome.outcome, outcome.message
    if pod.reason == "OOMKilled":
        return (
            "OutOfMemory",
            "OOMKilled",
            f"Container {pod.container} of pod {pod.name} was killed for memory; raise its memory",
        )
    if pod.exit_code in CLASS_OF_CODE:
        kind = CLASS_OF_CODE[pod.exit_code]
        return kind, kind, pod.message or f"Pod {pod.name} ended with exit code {pod.exit_code}"
    if pod.is_deleting or pod.reason in (
        "Evicted",
        "NodeLost",
        "Preempting",
        "Shutdown",
        "Terminated",
        "NodeShutdown",
    ):
        return "Infrastructure", pod.reason or "PodDeleted", f"Pod {pod.name} was taken away"
    if pod.exit_code == 0:
        return (
            "Infrastructure",
            "NoFinalReport",
            f"Pod {pod.name} ended with exit code 0 but without the driver's final report",
        )
    if pod.exit_code in (137, 143):
        return "Infrastructure", "Killed", f"Pod {pod.name} was killed (exit code {pod.exit_code})"
    words = pod.message.strip() or f"Pod {pod.name} ended with exit code {pod.exit_code}"
    return "Infrastructure", pod.reason or "PodFailed", words[:1500]


def classify_loss(observed: Observed, pod: PodView | None, *, gone: str) -> FailureStatus:
    """The failure that ends the current attempt; `gone` names the pod when it left no trace."""
    if pod is None:
        kind, reason, message = "Infrastructure", "PodGone", f"Pod {gone} is gone"
    else:
        kind, reason, message = _kind(pod)
    return FailureStatus.model_validate(
        {
            "class": kind,
            "reason": reason[:128],
            "message": message[:4096],
            "attempt": observed.attempt,
            "pod": pod.name if pod else gone,
            "node": pod.node if pod else observed.status.head.node,
            "container": pod.container if pod else CONTAINER,
            "exitCode": pod.exit_code if pod else None,
            "time": format_time(observed.now),
        }
    )
