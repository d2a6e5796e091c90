"""k sick nodes of n neither end nor hold a job that fits on the others, also if the scheduler likes the sick ones most.

The job trains on healthy nodes within ten minutes and has spent nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from railhead.api.status import parse_status
from tests.model.actors.actor import Actor, node_of
from tests.model.actors.refusing_kubelet import REFUSALS, RefusingKubelet
from tests.model.actors.sick_node import (
    IN_EVENTS,
    IN_STATUS,
    BusyNode,
    DeadGPU,
    KillingNode,
    RebootingNode,
    SickNode,
    UnstartingNode,
)
from tests.model.nodes import needs_gpus
from tests.model.world import NAMESPACE, is_live, role_of
from tests.model.world_schedule import WorldSchedule
from tests.slow_cases import slow_after

LIMIT = timedelta(minutes=10)
WORKERS = 6
NOTHING: dict[str, Any] = {"backoffLimit": 0, "noProgressLimit": 0}


class RefusingNodes(SickNode, RefusingKubelet):
    """Their kubelets refuse each pod."""

    def fall_ill(self, nodes: Iterable[str]) -> None:
        super().fall_ill(nodes)
        self.begin_refusing()

    def admit(self, pod: Any) -> bool:
        if not self.has(pod):
            return True
        self.refuse(pod, *self.refusal)
        return False


class BrokenRuntimes(SickNode):
    """Their container runtimes start none of our containers, so that the kubelet ends each pod."""

    def begin(self) -> None:
        self.world.kubelets.append(self.start)

    def start(self, pod: Any) -> bool:
        if not self.has(pod):
            return True
        message = "failed to create shim task: nvidia-container-cli: initialization error: driver not loaded"
        ended = {"exitCode": 128, "reason": "StartError", "message": message}
        self.change_status(pod, phase="Failed", containerStatuses=[{"name": "ray", "state": {"terminated": ended}}])
        return False


@dataclass
class SickCluster(WorldSchedule):
    """The first `sick` of the nodes, which the scheduler chooses first, are sick from the start, for good.

    Attributes:
        kind: of the actor that makes them so; `trouble`: of its choices, which one.
        workers: of the job, which fits on the other nodes exactly.
        spec: what else is in the job's.
    """

    kind: type[SickNode] = UnstartingNode
    trouble: Any = None
    sick: int = 1
    workers: int = WORKERS
    spec: dict[str, Any] = field(default_factory=lambda: NOTHING)
    names: tuple[str, ...] = ("-",)
    trained_at: datetime | None = field(default=None)

    async def _run(self) -> None:
        world = self.world
        world.epochs = 10_000
        for _, _, name in [place for place in world.api.objects if place[0] == "nodes"]:
            del world.api.objects["nodes", "", name]
        world.add_nodes(self.sick + self.workers, prefix="n")
        world.apply(scaling={"numWorkers": self.workers, "useGPU": True}, **self.spec)
        actor = self.kind(world, self.random)
        actor.next_at = None
        actor.fall_ill(f"n-{number}" for number in range(self.sick))
        if self.trouble is not None:
            setattr(actor, "refusal" if self.kind is RefusingNodes else "trouble", self.trouble)
        self.actors = [_Forever(actor)]
        begun = world.now
        while world.now < begun + LIMIT:
            await self._play(until=min(world.now + timedelta(seconds=5), begun + LIMIT))
            if self._trains_on_healthy_nodes(actor) and self.trained_at is None:
                self.trained_at = world.now
            elif not self._trains_on_healthy_nodes(actor):
                self.trained_at = None

    def _trains_on_healthy_nodes(self, actor: SickNode) -> bool:
        ours = [pod for pod in self.world.pods() if pod["metadata"]["namespace"] == NAMESPACE]
        if self.kind is DeadGPU:
            ours = list(filter(needs_gpus, ours))
        pods = [pod for pod in ours if is_live(pod) and node_of(pod)]
        are_healthy = all(node_of(pod) not in actor.nodes for pod in pods)
        return self.world.status()["phase"] == "Running" and are_healthy


def summarize(cluster: SickCluster) -> dict[str, Any]:
    wanted = ("phase", "attempt", "round", "avoidedNodes", "formerlyAvoidedNodes", "restarts", "failure")
    return {key: value for key, value in cluster.world.status().items() if key in wanted}


class _Forever(Actor):
    """Lets sick nodes act once a second."""

    def __init__(self, sick: SickNode) -> None:
        self.sick = sick
        super().__init__(sick.world, sick.random)
        self.next_at = sick.world.now
        self.refusals = sick.refusals

    def act(self) -> tuple[float, float]:
        if isinstance(self.sick, BusyNode):
            self.sick.strike()
        return 1, 1


KINDS = [
    *((RefusingNodes, refusal) for refusal in REFUSALS[:2]),
    *((UnstartingNode, trouble) for trouble in (*IN_STATUS, *IN_EVENTS)),
    (BrokenRuntimes, None),
    (DeadGPU, None),
    (RebootingNode, None),
]


@pytest.mark.parametrize("sick", slow_after(2, [1, 4, 2, 3]))
@pytest.mark.parametrize(
    ("kind", "trouble"), KINDS, ids=[f"{kind.__name__} {(trouble or [''])[0]}".strip() for kind, trouble in KINDS]
)
def test_a_job_that_fits_on_the_healthy_nodes_trains_there_within_ten_minutes_and_has_spent_nothing(
    kind: type[SickNode], trouble: Any, sick: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    cluster = SickCluster(seed=sick, kind=kind, trouble=trouble, sick=sick)
    asyncio.run(cluster.run())
    status = parse_status(cluster.world.status())
    assert cluster.trained_at is not None, f"it does not train: {summarize(cluster)}"
    assert status.restarts.without_progress == status.restarts.application == 0
    assert {node.name for node in status.avoided_nodes or ()} == {f"n-{number}" for number in range(sick)}
    print(f"trains after {(cluster.trained_at - cluster.circumstances.world.now + LIMIT).total_seconds():.0f} s")


@pytest.mark.parametrize("seed", slow_after(2, range(4)))
def test_a_node_that_kills_pods_does_not_end_a_job_that_fits_on_the_others(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The head too, which the scheduler puts there first. The kills count, since they may be the job's own fault."""
    caplog.set_level(logging.CRITICAL)
    cluster = SickCluster(seed=seed, kind=KillingNode, sick=1, spec={})
    asyncio.run(cluster.run())
    status = parse_status(cluster.world.status())
    assert cluster.trained_at is not None, f"it does not train: {summarize(cluster)}"
    assert [(node.name, node.reason) for node in status.avoided_nodes or ()] == [("n-0", "PodKilled")]
    assert status.restarts.application == 0


def test_a_worker_is_compared_with_workers_only() -> None:
    """An image that no node can pull ends nothing and blames no node, and the message stays what the kubelet said."""
    cluster = SickCluster(seed=0, kind=UnstartingNode, trouble=IN_STATUS[0], sick=4, workers=4)
    asyncio.run(cluster.run())
    status = parse_status(cluster.world.status())
    assert status.phase == "Pending" and status.round == 0 and not status.avoided_nodes
    assert status.reason_of("Reconciling") == "ImagePullBackOff"
    assert role_of(next(pod for pod in cluster.world.pods())) == "head"
