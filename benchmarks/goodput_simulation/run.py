"""One job of 30 days in simulated time: training, interruptions and starts. Pure.

All seconds have one cause, by the names of `status.goodput`, and add up to the time of the simulation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from benchmarks.goodput_simulation.cluster import Cluster
from benchmarks.goodput_simulation.faults import DAY, HEAD, Fault, Kind
from benchmarks.goodput_simulation.rules import FRESH, GaveUp, Loss, Response, Rules
from benchmarks.goodput_simulation.saves import Saves
from railhead.contract.loss_rate import NO_LOSSES, LossHistory

FAILED = "failed"  # instead of a cause: the rest of the time, after the rules have let the job fail
SECONDS = 30 * DAY
AGAIN_SECONDS = 1800.0  # assumed: mean time of training until a GPU that is faulty fails again
HANG_SECONDS = 600.0  # torch's default: a collective's timeout with NCCL


@dataclass
class Run:
    """The job, in the worker pods of `cluster`.

    Attributes:
        saves: when it saves; `load`: seconds until a checkpoint is read again.
        resumes: from the last checkpoint after an interruption; otherwise it starts from zero.
        losses: how many interruptions there were.
        spent: seconds by cause.
    """

    rules: Rules
    cluster: Cluster
    faults: Sequence[Fault]
    chance: Random
    saves: Saves
    load: float = 0.0
    resumes: bool = True
    seconds: float = SECONDS
    losses: int = 0
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._now = 0.0
        self._next = 0  # of faults
        self._nodes = [""] * self.cluster.slots
        self._missing: set[int] = set()  # slots without a pod
        self._again: Fault | None = None
        self._has_checkpoint = False
        self._known_losses = NO_LOSSES

    def play(self) -> dict[str, float]:
        """Returns the seconds by cause."""
        fault = self._bring_up(Response(FRESH), "starting")
        try:
            while self._now < self.seconds:
                trained = 0.0
                if fault is None:
                    trained, fault = self._train()
                if fault is not None:
                    fault = self._recover(fault, trained)
                else:
                    self._move("checkpointing", self.saves.look(trained).stalled)
        except GaveUp:
            self.spent[FAILED] += self.seconds - self._now
        return self.spent

    def _recover(self, fault: Fault, trained: float) -> Fault | None:
        """Returns the next fault, if it comes before training. Raises GaveUp if the job fails."""
        response = self.rules.respond(self._lose(fault, trained))
        hangs = HANG_SECONDS if fault.kind is Kind.HANG else 0.0
        return self._spend("hanging", hangs) or self._bring_up(response, "restoring")

    def _bring_up(self, response: Response, cause: str) -> Fault | None:
        """Returns the fault that comes before training, if one does."""
        self._missing.update(range(self.cluster.slots) if response.slots is None else response.slots)
        fault = self._spend("restoring", response.delay)
        if fault is not None:
            return fault
        if self._missing:
            slots = sorted(self._missing)
            stay = {node for slot, node in enumerate(self._nodes) if slot not in self._missing}
            placed = self.cluster.place(len(slots), taken=stay, avoided=response.avoided, now=self._now)
            for slot, node in zip(slots, placed.nodes, strict=True):
                self._nodes[slot] = node
            self._missing.clear()
            fault = self._spend("podsPending", placed.seconds)
        fault = fault or self._spend(cause, self.chance.choice(response.starts))
        if fault is None and self._has_checkpoint:
            fault = self._spend("restoring", self.load)
        return fault

    def _train(self) -> tuple[float, Fault | None]:
        """Returns the seconds of training, and what ends it."""
        began, faulty = self._now, self.cluster.list_faulty(self._nodes, now=self._now)
        if faulty:
            at = self._now + self.chance.expovariate(len(faulty) / AGAIN_SECONDS)
            self._again = Fault(at, Kind.GPU, self._nodes.index(self.chance.choice(faulty)))
        fault = self._spend("productive", self.seconds)
        self._again = None
        return self._now - began, fault

    def _lose(self, fault: Fault, trained: float) -> Loss:
        """Takes back what training has lost, and breaks the node."""
        self.losses += 1
        saved = self.saves.look(trained)
        self._move("checkpointing", saved.stalled)
        lost = self.spent["productive"]
        if self.resumes:
            lost = trained - saved.stalled - saved.kept
            self._has_checkpoint |= saved.commits > 0
        self._move("retrained", lost)
        self._note_losses(fault, trained)
        node = self._nodes[fault.slot] if fault.slot != HEAD else ""
        if node:
            self.cluster.harm(node, fault.kind, now=self._now)
        return Loss(fault, node, trained, saved.commits)

    def _note_losses(self, fault: Fault, trained: float) -> None:
        """Notes the loss for the saves that follow, unless it says more of the code than of the cluster."""
        known = self._known_losses
        number = known.number + int(fault.kind is not Kind.SOFTWARE)
        self._known_losses = LossHistory(number, known.seconds + trained)
        self.saves.note_losses(self._known_losses)

    def _move(self, cause: str, seconds: float) -> None:
        """Gives another cause to time of training."""
        self.spent["productive"] -= seconds
        self.spent[cause] += seconds

    def _spend(self, cause: str, seconds: float) -> Fault | None:
        """Lets time pass until the next fault at most, which it returns."""
        until = min(self._now + seconds, self.seconds)
        coming = [*self.faults[self._next : self._next + 1], *([self._again] if self._again else [])]
        fault = min((each for each in coming if each.at < until), key=lambda each: each.at, default=None)
        if fault is not None and fault is not self._again:
            self._next += 1
        until = fault.at if fault else until
        self.spent[cause] += until - self._now
        self._now = until
        return fault
