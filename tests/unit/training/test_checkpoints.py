"""All ranks save on the same step, once for each notice, however late and in whatever order it reaches them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from railhead import training
from railhead.contract.loss_rate import NO_LOSSES, LossHistory
from railhead.driver.ray.train_context import NOTICES
from railhead.training import EndNotice, _checkpoints
from railhead.training._checkpoints import MAX_STEPS, Agreement
from railhead.training._save_pace import Every

ONE = EndNotice(deadline=100.0, ranks=(1,))
ALL = EndNotice(deadline=200.0, ranks=(0, 1))
WORLD = 2
MANY = 100_000  # so often is one lost that the time of the saves alone decides


class Ranks:
    """Threads instead of processes; `all_reduce` of each step is noted in `looks`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[int] = []
        self._of_rank = threading.local()
        self._barrier = threading.Barrier(WORLD, timeout=10)
        self._brought: dict[int, list[int]] = {}
        monkeypatch.setattr(NOTICES, "are_watched", True)
        monkeypatch.setattr(training, "end_notice", lambda: self._of_rank.notice)
        monkeypatch.setattr(time, "monotonic", lambda: self._of_rank.now)
        monkeypatch.setattr(_checkpoints, "_reduce", self._reduce)
        monkeypatch.setattr(_checkpoints, "is_rank", lambda: True)
        monkeypatch.setattr(_checkpoints, "count_ranks", lambda: MANY)

    def run(
        self,
        steps: int,
        find_notice: Callable[[int, int], EndNotice | None],
        find_seconds: Callable[[int, int], float],
        *,
        every: Every | None = None,
        find_stall: Callable[[int], float] = lambda _: 0.0,
    ) -> list[list[int]]:
        """For each rank the steps on which it saves; both functions take the rank and the step.

        `find_stall`: the seconds of a save, by the rank.
        """

        def take_steps(rank: int) -> list[int]:
            me = self._of_rank
            me.rank, me.now, me.notice, saved = rank, 0.0, None, list[int]()
            agreement = Agreement(every)
            for me.step in range(steps):
                me.now += find_seconds(rank, me.step)
                me.notice = find_notice(rank, me.step)
                if agreement.is_time_to_save():
                    saved.append(me.step)
                    me.now += find_stall(rank)
                    agreement.note_save(find_stall(rank))
            return saved

        with ThreadPoolExecutor(WORLD) as pool:
            return list(pool.map(take_steps, range(WORLD)))

    def _reduce(self, values: list[int], group: object) -> list[int]:
        assert group is None
        me = self._of_rank
        self._brought[me.rank] = values
        self._barrier.wait()
        brought = list(self._brought.values())
        self._barrier.wait()
        if me.rank == 0:
            self.looks.append(me.step)
        return [max(each) for each in zip(*brought, strict=True)]


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(monkeypatch)


def test_ranks_save_on_the_same_step_once_for_each_notice(ranks: Ranks) -> None:
    """The first notice reaches rank 1 first, the second rank 0."""
    arrivals = {0: (4, 7), 1: (2, 9)}

    def find_notice(rank: int, step: int) -> EndNotice | None:
        one, every = arrivals[rank]
        return ALL if step >= every else ONE if step >= one else None

    assert ranks.run(12, find_notice, lambda *_: 3.0) == [[2, 7], [2, 7]]
    assert ranks.looks == list(range(12)), "steps of 3 s"


def test_ranks_look_at_each_other_every_two_seconds_of_the_slowest(ranks: Ranks) -> None:
    def find_seconds(rank: int, step: int) -> float:
        return 0.5 if rank == 1 and step > 250 else 0.001

    assert ranks.run(316, lambda *_: None, find_seconds) == [[], []]
    assert ranks.looks == [0, MAX_STEPS, 2 * MAX_STEPS, 3 * MAX_STEPS, 307, 311, 315]


def test_outside_of_a_job_ranks_never_look(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NOTICES, "are_watched", False)
    assert ranks.run(3 * MAX_STEPS, lambda *_: ALL, lambda *_: 3.0) == [[], []]
    assert not ranks.looks


def test_ranks_save_every_so_many_seconds_outside_of_a_job_too(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes 3 s, so each one is a look."""
    monkeypatch.setattr(NOTICES, "are_watched", False)
    monkeypatch.setattr(training, "end_notice", lambda: None)
    assert ranks.run(12, lambda *_: None, lambda *_: 3.0, every=10.0) == [[3, 7, 11]] * 2


def test_the_rank_that_waits_longest_for_its_saves_decides_how_often_all_save(ranks: Ranks) -> None:
    """Rank 1 waits 0.9 s for a save: 90 s from one to the next, the first after 30 s."""
    found = ranks.run(80, lambda *_: None, lambda *_: 3.0, every="auto", find_stall=lambda rank: 0.9 * rank)
    assert found == [[9, 39, 69]] * 2


def test_auto_saves_more_often_once_the_run_has_lost_much(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save takes 0.2 s: 186 s from one to the next with a loss a day, and 53.7 s with twelve."""
    monkeypatch.setattr(_checkpoints, "count_ranks", lambda: 1)
    told = {"losses": NO_LOSSES}
    monkeypatch.setattr(_checkpoints, "read_losses", lambda: told["losses"])
    seldom = ranks.run(140, lambda *_: None, lambda *_: 3.0, every="auto", find_stall=lambda _: 0.2)
    told["losses"] = LossHistory(11, 0.0)
    often = ranks.run(140, lambda *_: None, lambda *_: 3.0, every="auto", find_stall=lambda _: 0.2)
    assert seldom == [[9, 71, 133]] * 2
    assert often == [[9, 27, 45, 63, 81, 99, 117, 135]] * 2


def test_a_notice_does_not_wait_until_a_save_is_due(ranks: Ranks) -> None:
    found = ranks.run(9, lambda _, step: ONE if step >= 4 else None, lambda *_: 3.0, every=1000.0)
    assert found == [[4]] * 2


@pytest.mark.parametrize("every", ["sometimes", 0, -1.0, float("nan"), float("inf"), True, "continuous"])
def test_an_interval_that_is_none_is_refused(every: Any) -> None:
    with pytest.raises(ValueError, match="every"):
        Agreement(every)
