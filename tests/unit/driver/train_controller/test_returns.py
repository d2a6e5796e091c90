"""Ray Train's controller asks each rank that has ended whether its function returned."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.contract import environment as e
from railhead.driver.errors import NotReturned, TrainFunctionRaised
from railhead.driver.rank.run import BEGUN, NOT_BEGUN, RAISED, RETURNED, RankEnd
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller import returns
from railhead.driver.train_controller.failure import miss_success
from railhead.driver.train_controller.failure_policy import build_failure
from railhead.driver.train_controller.returns import ReturnsCallback
from railhead.driver.train_controller.workers import Answer

RAISES = TrainFunctionRaised(1, "ValueError: no (user.py, line 3, in f)")


class Group:
    """Two ranks with their `answers`; `asked` holds the ranks of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers = [object(), object()]
        self.answers = [Answer(RankEnd(RETURNED)), Answer(RankEnd(RETURNED))]
        self.asked: list[list[int]] = []
        monkeypatch.setattr(returns, "call_ranks", self._ask)

    def get_workers(self) -> list[object]:
        return self.workers

    def _ask(self, group: object, ranks: list[int], function: object, *, timeout: float) -> dict[int, Answer]:
        self.asked.append(ranks)
        return {rank: self.answers[rank] for rank in ranks}


def make_status(*running: bool) -> Any:
    statuses = {rank: SimpleNamespace(running=each, error=None) for rank, each in enumerate(running)}
    return SimpleNamespace(worker_statuses=statuses)


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    return Spool(tmp_path)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(monkeypatch)


@pytest.fixture
def callback(spool: Spool, group: Group) -> ReturnsCallback:
    callback = ReturnsCallback()
    callback.after_worker_group_start(group)
    return callback


def test_reports_that_all_ranks_returned_and_asks_each_once(
    callback: ReturnsCallback, group: Group, spool: Spool
) -> None:
    for running in ((True, True), (True, False), (True, False), (False, False)):
        assert not spool.have_all_returned()
        callback.after_worker_group_poll_status(make_status(*running))
    assert spool.have_all_returned()
    assert group.asked == [[1], [0]]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(RankEnd(RAISED, RAISES)), "rank 1: ValueError: no"),
        (Answer(RankEnd(BEGUN, None, "job-w1")), "its thread ended (pod job-w1), but the training function (started)"),
        (Answer(RankEnd(NOT_BEGUN)), "the training function (not started) neither returned nor raised"),
        (Answer(), "its thread ended, and its process does not report how"),
        (Answer(error=RuntimeError("the actor is dead")), "the actor is dead"),
    ],
)
def test_a_rank_that_ended_without_returning_gets_an_error(
    callback: ReturnsCallback, group: Group, spool: Spool, answer: Answer, expected: str
) -> None:
    group.answers[1] = answer
    for running in (True, False):
        status = make_status(running, False)
        callback.after_worker_group_poll_status(status)
        assert status.worker_statuses[0].error is None
        assert expected in str(status.worker_statuses[1].error)
        assert not spool.have_all_returned()


def test_does_not_ask_ranks_with_an_error(callback: ReturnsCallback, group: Group, spool: Spool) -> None:
    status = make_status(False, False)
    status.worker_statuses[0].error = RAISES
    callback.after_worker_group_poll_status(status)
    assert group.asked == [[1]]
    assert not spool.have_all_returned()


def test_asks_again_in_a_new_group_and_for_a_replaced_worker(
    callback: ReturnsCallback, group: Group, spool: Spool
) -> None:
    callback.after_worker_group_poll_status(make_status(False, True))
    group.workers = [object(), group.workers[1]]  # a replica group was replaced
    callback.after_worker_group_poll_status(make_status(True, False))
    assert not spool.have_all_returned()
    callback.after_worker_group_poll_status(make_status(False, False))
    assert spool.have_all_returned()
    callback.after_worker_group_start(group)
    assert not spool.have_all_returned()


@pytest.mark.parametrize(("is_ending", "has_read", "is_success"), [(1, 1, False), (1, 0, True), (0, 1, True)])
def test_a_return_after_reading_the_preemption_notice_is_no_success(
    callback: ReturnsCallback, group: Group, spool: Spool, is_ending: int, has_read: int, is_success: bool
) -> None:
    """Without the notice the function just finished; without the end, only a node was preempted."""
    if is_ending:
        spool.write_end(1.0)
    group.answers[1] = Answer(RankEnd(RETURNED, has_read_notice=bool(has_read)))
    callback.after_worker_group_poll_status(make_status(False, False))
    assert spool.have_all_returned() is is_success


def test_a_success_that_cannot_be_recorded_is_an_error(
    callback: ReturnsCallback, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(spool: Spool, ranks: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "write_returned", fill)
    with pytest.raises(OSError, match="No space left"):
        callback.after_worker_group_poll_status(make_status(False, False))


def test_a_rank_that_did_not_return_is_an_application_error() -> None:
    group = type("WorkerGroupError", (Exception,), {})("")
    group.worker_failures = {1: NotReturned(1, "its thread ended")}
    failure = build_failure(group)
    assert (failure.class_, failure.reason) == ("Application", "TrainFunctionNotReturned")
    assert failure.message == "rank 1: its thread ended"
    assert miss_success().reason == failure.reason
