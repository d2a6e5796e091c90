"""The driver and the ranks of one job in simulated time: steps, checkpoints, the notice of an end, and what is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from railhead.api import names
from railhead.contract.report import State
from tests.model.api_server import Object

STEP = 2.0  # seconds of one step
NOTICE = 2.0  # from SIGTERM until every rank has read it
START = (10.0, 20.0)  # from running pods to the first step
SAVE = (5.0, 20.0)  # from a report with a checkpoint to its commit, in which the ranks wait
PERIOD = 1800.0  # between regular checkpoints, which cost nothing here


@dataclass(frozen=True)
class Loss:
    """A group that lost a pod.

    Attributes:
        seconds: of training after its last commit.
        had_head_notice: whether its head got SIGTERM, after which the driver ends the run.
    """

    seconds: float
    had_head_notice: bool


@dataclass(frozen=True)
class Hooks:
    """What a driver needs of the cluster: the time, a timer, a `report`, and the end of its pod with an outcome."""

    now: Callable[[], float]
    call_later: Callable[[float, Callable[[], None]], object]
    report: Callable[[State], None]
    end_head: Callable[[str], None]


@dataclass
class Training:
    """One job that needs `seconds` of training by `gpus` ranks.

    Attributes:
        committed: seconds of training in the newest checkpoint; `commits`: how many there are.
        losses: one for each group that lost a pod.
        is_training: a group exists, and makes steps or saves.
    """

    gpus: int
    seconds: float
    random: Random
    hooks: Hooks
    committed: float = 0.0
    commits: int = 0
    losses: list[Loss] = field(default_factory=list)
    is_training: bool = False

    def __post_init__(self) -> None:
        self._members: dict[str, bool] = {}  # by uid, whether its notice has come
        self._group = 0  # counts groups, so that calls of an earlier one do nothing
        self._done = 0.0
        self._since: float | None = None  # steps are made since then
        self._is_ending = False

    def look(self, pods: list[Object]) -> None:
        """The pods of the newest attempt, or their state, have changed."""
        running = {pod["metadata"]["uid"]: pod for pod in pods if is_running(pod)}
        if self._members and not self._members.keys() <= running.keys():
            self._lose([pod for pod in running.values() if is_head(pod)])
        for uid, was_known in self._members.items():
            if not was_known and is_leaving(running[uid]):
                self._members[uid] = True
                self._later(NOTICE, self._take_notice if is_head(running[uid]) else self._save_at_step)
        staying = {uid: pod for uid, pod in running.items() if not is_leaving(pod)}
        if not self._members and len(staying) == self.gpus + 1:
            self._members = dict.fromkeys(staying, False)
            self._later(self.random.uniform(*START), self._begin)

    def has_group(self, pod: Object) -> bool:
        """Whether the pod is a member of a group that makes steps."""
        return self.is_training and pod["metadata"]["uid"] in self._members

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        group = self._group
        self.hooks.call_later(seconds, lambda: call() if group == self._group else None)

    def _begin(self) -> None:
        self.is_training, self._done = True, self.committed
        self.hooks.report("RUNNING")
        self._go_on()
        self._later(PERIOD, self._save_regularly)

    def _go_on(self) -> None:
        self._since = self.hooks.now()
        self._later(self.seconds - self._done, self._finish)

    def _count_done(self) -> float:
        return self._done + (self.hooks.now() - self._since if self._since is not None else 0.0)

    def _save_regularly(self) -> None:
        if self._since is not None:
            self._commit(self._count_done())
        self._later(PERIOD, self._save_regularly)

    def _take_notice(self) -> None:
        self._is_ending = True
        if self.is_training:
            self._save_at_step()
        else:
            self.hooks.end_head("Preemption")

    def _save_at_step(self) -> None:
        """After the step that runs now, unless the ranks save already."""
        if self._since is not None:
            self._later(-self._count_done() % STEP, self._save)

    def _save(self) -> None:
        if self._since is None:
            return
        saved = self._done = self._count_done()
        self._since = None
        self._later(self.random.uniform(*SAVE), partial(self._end_save, saved, is_last=self._is_ending))

    def _end_save(self, saved: float, *, is_last: bool) -> None:
        self._commit(saved)
        self._go_on()
        if is_last:
            self._later(self.random.uniform(0, STEP), lambda: self.hooks.end_head("Preemption"))
        elif self._is_ending:
            self._save_at_step()

    def _commit(self, done: float) -> None:
        self.committed = done
        self.commits += 1
        self.hooks.report("RUNNING")

    def _finish(self) -> None:
        if self._since is not None and self._count_done() >= self.seconds - 1e-6:
            self.committed = self.seconds
            self._leave()
            self.hooks.end_head("Succeeded")

    def _lose(self, heads: list[Object]) -> None:
        if self.is_training:
            self.losses.append(Loss(self._count_done() - self.committed, self._is_ending))
            if heads:
                self.hooks.report("RESTARTING")
        self._leave()

    def _leave(self) -> None:
        self._group += 1
        self._members, self._since, self._is_ending, self.is_training = {}, None, False, False


def is_head(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"][names.LABEL_ROLE] == names.HEAD)


def is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_running(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")
