"""All ranks save on the same step, once for each notice, however late and in whatever order it reaches them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from railhead import training
from railhead.driver.ray.train_context import NOTICES
from railhead.training import EndNotice, _checkpoints
from railhead.training._checkpoints import MAX_STEPS, Agreement

ONE = EndNotice(deadline=100.0, ranks=(1,))
ALL = EndNotice(deadline=200.0, ranks=(0, 1))
WORLD = 2


class Ranks:
    """Threads instead of processes; `all_reduce` of each step is noted in `looks`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[int] = []
        self._of_rank = threading.local()
        self._barrier = threading.Barrier(WORLD, timeout=10)
        self._brought: dict[int, tuple[int, int]] = {}
        monkeypatch.setattr(NOTICES, "are_watched", True)
        monkeypatch.setattr(training, "end_notice", lambda: self._of_rank.notice)
        monkeypatch.setattr(time, "monotonic", lambda: self._of_rank.now)
        monkeypatch.setattr(_checkpoints, "_reduce", self._reduce)

    def run(
        self, steps: int, find_notice: Callable[[int, int], EndNotice | None], find_seconds: Callable[[int, int], float]
    ) -> list[list[int]]:
        """For each rank the steps on which it saves; both functions take the rank and the step."""

        def take_steps(rank: int) -> list[int]:
            me = self._of_rank
            me.rank, me.now, me.notice, saved = rank, 0.0, None, list[int]()
            agreement = Agreement()
            for me.step in range(steps):
                me.now += find_seconds(rank, me.step)
                me.notice = find_notice(rank, me.step)
                if agreement.is_time_to_save():
                    saved.append(me.step)
            return saved

        with ThreadPoolExecutor(WORLD) as pool:
            return list(pool.map(take_steps, range(WORLD)))

    def _reduce(self, mark: int, wait: int) -> tuple[int, int]:
        me = self._of_rank
        self._brought[me.rank] = (mark, wait)
        self._barrier.wait()
        brought = list(self._brought.values())
        self._barrier.wait()
        if me.rank == 0:
            self.looks.append(me.step)
        return max(mark for mark, _ in brought), min(wait for _, wait in brought)


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
