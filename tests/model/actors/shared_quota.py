"""A ResourceQuota that 2 to 8 jobs share, and that has room for one or two of them.

staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go: CheckRequest. A pod counts until it has
ended (pkg/quota/v1/evaluator/core/pods.go: QuotaV1Pod).
"""

from __future__ import annotations

from random import Random

from tests.model.actors.actor import Actor, Range
from tests.model.api_server import ENDED, Object
from tests.model.world import NAMESPACE, World, is_inert

WORKERS = 2


class SharedQuota(Actor):
    """More jobs like the first, within seconds of each other, or all at once."""

    first: Range = (0, 60)

    def __init__(self, world: World, random: Random) -> None:
        self.wanted = random.choice((2, 2, 3, 3, 4, 8)) - 1
        self.spread = random.choice((0.0, 15.0))
        self.hard = 0
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.quotas.append(self.judge)

    def judge(self, body: Object) -> str:
        """`pods` includes those that are being deleted, until their kubelet has ended them."""
        if not self.hard or body["metadata"].get("namespace", NAMESPACE) != NAMESPACE:
            return ""
        used = sum(
            pod["metadata"]["namespace"] == NAMESPACE and pod["status"].get("phase") not in ENDED and not is_inert(pod)
            for pod in self.world.pods()
        )
        if used < self.hard:
            return ""
        return f"exceeded quota: few, requested: pods=1, used: pods={used}, limited: pods={self.hard}"

    def act(self) -> Range:
        if not self.hard:
            scaling: Object = next((job["spec"]["scaling"] for job in self.jobs()), {})
            largest = max(scaling.get("numWorkers") or scaling.get("maxWorkers") or WORKERS, WORKERS) + 1
            self.hard = largest + self.random.choice((0, 1, 2, WORKERS + 1))
        if self.wanted:
            self.wanted -= 1
            self.world.apply(f"job-{self.wanted}", backoffLimit=0, scaling={"numWorkers": WORKERS})
            return 0, self.spread
        return 10_000, 10_000

    def leave(self) -> None:
        """The quota stays, and has room for the largest of all jobs: all of them succeed."""
        needed = [job["spec"]["scaling"].get("numWorkers", WORKERS) + 1 for job in self.jobs()]
        self.hard = max([self.hard, *needed]) if self.hard else 0
