"""The nodes of the simulated cluster: which of them are broken, which have the image, and where pods are placed. Pure.

Each worker pod fills a node. The scheduler chooses any node that is free and in service.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random

from benchmarks.goodput_simulation.faults import DAY, Kind
from railhead.planning.facts.avoided_nodes import PATIENCE_SECONDS

NODES_PER_SPARE = 16  # assumed: so that jobs hardly ever wait for repairs, at either rate
REPAIR_SECONDS = DAY  # assumed: from a node's failure until it is repaired
IMAGE_SECONDS = (50.0, 200.0)  # assumed: 10 GB at 200 to 50 MB/s
PODS_PER_SECOND = 22.0  # scheduled and started; measured: make bench-scale, a whole cluster


@dataclass(frozen=True)
class Placement:
    """The nodes of new pods, and the seconds until all of these run."""

    nodes: Sequence[str]
    seconds: float


@dataclass
class Cluster:
    """Nodes for `slots` worker pods, and spare ones.

    Attributes:
        takes_out: a node with a faulty GPU gets no pods until it is repaired. Otherwise the scheduler does not know.
        down: nodes that get no pods, and until when.
        faulty: nodes that get pods whose training fails again, and until when.
    """

    slots: int
    takes_out: bool
    chance: Random
    down: dict[str, float] = field(default_factory=dict)
    faulty: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spare = -(-self.slots // NODES_PER_SPARE)
        self._nodes = [f"node-{number}" for number in range(self.slots + spare)]
        self._without_image = set(self._nodes)

    def harm(self, node: str, kind: Kind, *, now: float) -> None:
        """Breaks the node, if this kind of fault does."""
        if kind is Kind.HOST or (kind is Kind.GPU and self.takes_out):
            self.down[node] = now + REPAIR_SECONDS
        elif kind is Kind.GPU:
            self.faulty.setdefault(node, now + REPAIR_SECONDS)

    def list_faulty(self, nodes: Collection[str], *, now: float) -> list[str]:
        """Returns those of these nodes on which training fails again; repaired ones are forgotten."""
        self.faulty = {node: until for node, until in self.faulty.items() if until > now}
        used = set(nodes)
        return [node for node in self.faulty if node in used]

    def place(self, pods: int, *, taken: Collection[str], avoided: Collection[str], now: float) -> Placement:
        """Places new worker pods. If no other nodes are left, avoided ones are used, and repairs awaited."""
        at, free = now, self._find_free(taken, now)
        chosen = [node for node in free if node not in avoided]
        if len(chosen) < pods:
            at, chosen = at + PATIENCE_SECONDS, free
        while len(chosen) < pods:
            at = min(until for until in self.down.values() if until > at)
            chosen = self._find_free(taken, at)
        left_out = set(self.chance.sample(chosen, len(chosen) - pods))
        nodes = [node for node in chosen if node not in left_out]
        pulls = [self.chance.uniform(*IMAGE_SECONDS) for _ in self._without_image.intersection(nodes)]
        self._without_image.difference_update(nodes)
        return Placement(nodes, at - now + pods / PODS_PER_SECOND + max(pulls, default=0.0))

    def _find_free(self, taken: Collection[str], at: float) -> list[str]:
        blocked = {*taken, *(node for node, until in self.down.items() if until > at)}
        return [node for node in self._nodes if node not in blocked]
