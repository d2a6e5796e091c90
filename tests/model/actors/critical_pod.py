"""A kubelet that ends a pod in order to admit a critical one.

pkg/kubelet/preemption/preemption.go: evictPodsToFreeRequests sets reason `Preempting` (pkg/kubelet/events/event.go:
PreemptContainer), its `message`, and a condition DisruptionTarget with a text of its own.
"""

from __future__ import annotations

from tests.model.actors.actor import Actor, Range

PREEMPTED = ("Preempting", "Preempted in order to admit critical pod")
CONDITION = "Pod was preempted by Kubelet to accommodate a critical pod."


class CriticalPod(Actor):
    """One after the other, anywhere."""

    def act(self) -> Range:
        pod = self.choose_pod()
        if pod is None:
            return 5, 60
        self.end_by_kubelet(pod, PREEMPTED, text=CONDITION, has_time=self.random.random() < 0.3)
        return 60, 600
