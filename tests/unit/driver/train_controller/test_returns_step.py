"""Which ranks have returned: only what a rank reports counts as a success."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import TrainingError
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank.run_rank import BEGUN, NOT_BEGUN, RAISED, RETURNED, RankEnd
from railhead.driver.train_controller import returns_step
from railhead.driver.train_controller.failures.classify_failure import explain_missing_success
from railhead.driver.train_controller.failures.ray_exceptions import build_failure
from railhead.driver.train_controller.returns_step import ReturnsStep
from railhead.driver.train_controller.worker_group import RankAnswer
from tests.unit.driver.mailboxes import tell

RAISES = TrainingError(RankErrorKind.RAISED, 1, "ValueError: no (user.py, line 3, in f)")


class Ranks:
    """Two ranks with their `answers`; `asked` holds the ranks of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers = [object(), object()]
        self.answers = [RankAnswer(RankEnd(RETURNED)), RankAnswer(RankEnd(RETURNED))]
        self.asked: list[list[int]] = []
        monkeypatch.setattr(returns_step, "call_ranks", self._ask)

    def get_workers(self) -> list[object]:
        return self.workers

    def _ask(self, group: object, ranks: list[int], function: object, *, timeout: float) -> dict[int, RankAnswer[Any]]:
        self.asked.append(ranks)
        return {rank: self.answers[rank] for rank in ranks}


def make_status(*running: bool) -> Any:
    statuses = {rank: SimpleNamespace(running=each, error=None) for rank, each in enumerate(running)}
    return SimpleNamespace(worker_statuses=statuses)


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Any:
    return Ranks(monkeypatch)


@pytest.fixture
def returns(mailbox: Mailbox, ranks: Any) -> ReturnsStep:
    step = ReturnsStep(mailbox)
    step.after_group_start(ranks)
    return step


def test_reports_that_all_ranks_returned_and_asks_each_once(returns: ReturnsStep, ranks: Any, mailbox: Mailbox) -> None:
    for running in ((True, True), (True, False), (True, False), (False, False)):
        assert not mailbox.controller.read().has_returned
        returns.after_poll(make_status(*running), ranks)
    assert mailbox.controller.read().has_returned
    assert ranks.asked == [[1], [0]]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (RankAnswer(RankEnd(RAISED, RAISES)), "rank 1: ValueError: no"),
        (
            RankAnswer(RankEnd(BEGUN, None, "job-w1")),
            "its thread ended (pod job-w1), but the training function (started)",
        ),
        (RankAnswer(RankEnd(NOT_BEGUN)), "the training function (not started) neither returned nor raised"),
        (RankAnswer(), "its thread ended, and its process does not report how"),
        (RankAnswer(error=RuntimeError("the actor is dead")), "the actor is dead"),
    ],
)
def test_a_rank_that_ended_without_returning_gets_an_error(
    returns: ReturnsStep, ranks: Any, mailbox: Mailbox, answer: RankAnswer[Any], expected: str
) -> None:
    ranks.answers[1] = answer
    for running in (True, False):
        status = make_status(running, False)
        returns.after_poll(status, ranks)
        assert status.worker_statuses[0].error is None
        assert expected in str(status.worker_statuses[1].error)
        assert not mailbox.controller.read().has_returned


def test_a_short_run_leaves_its_link(returns: ReturnsStep, ranks: Any, mailbox: Mailbox) -> None:
    ranks.answers = [RankAnswer(RankEnd(RETURNED, tracker_url=f"http://t/{rank}")) for rank in range(2)]
    returns.after_poll(make_status(False, False), ranks)
    assert mailbox.controller.read().tracker_url == "http://t/0"


def test_the_link_of_a_heartbeat_stays(returns: ReturnsStep, ranks: Any, mailbox: Mailbox) -> None:
    tell(mailbox.controller, tracker_url="http://t/0")
    ranks.answers[1] = RankAnswer(RankEnd(RETURNED, tracker_url="http://t/1"))
    returns.after_poll(make_status(True, False), ranks)
    assert mailbox.controller.read().tracker_url == "http://t/0"


def test_does_not_ask_ranks_with_an_error(returns: ReturnsStep, ranks: Any, mailbox: Mailbox) -> None:
    status = make_status(False, False)
    status.worker_statuses[0].error = RAISES
    returns.after_poll(status, ranks)
    assert ranks.asked == [[1]]
    assert not mailbox.controller.read().has_returned


def test_asks_again_in_a_new_group_and_for_a_replaced_worker(
    returns: ReturnsStep, ranks: Any, mailbox: Mailbox
) -> None:
    returns.after_poll(make_status(False, True), ranks)
    ranks.workers = [object(), ranks.workers[1]]  # a replica group was replaced
    returns.after_poll(make_status(True, False), ranks)
    assert not mailbox.controller.read().has_returned
    returns.after_poll(make_status(False, False), ranks)
    assert mailbox.controller.read().has_returned
    returns.after_group_start(ranks)
    assert not mailbox.controller.read().has_returned


@pytest.mark.parametrize(("is_ending", "has_read", "is_success"), [(1, 1, False), (1, 0, True), (0, 1, True)])
def test_a_return_after_reading_the_preemption_notice_is_no_success(
    returns: ReturnsStep, ranks: Any, mailbox: Mailbox, is_ending: int, has_read: int, is_success: bool
) -> None:
    """Without the notice the function just finished; without the end, only a node was preempted."""
    if is_ending:
        tell(mailbox.driver, end=1.0)
    ranks.answers[1] = RankAnswer(RankEnd(RETURNED, has_read_notice=bool(has_read)))
    returns.after_poll(make_status(False, False), ranks)
    assert mailbox.controller.read().has_returned is is_success


def test_a_success_that_cannot_be_recorded_is_an_error(
    returns: ReturnsStep, ranks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(file: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("railhead.driver.mailbox.mailbox._replace", fill)
    with pytest.raises(OSError, match="No space left"):
        returns.after_poll(make_status(False, False), ranks)


def test_a_rank_that_did_not_return_is_an_application_error() -> None:
    error: Any = type("WorkerGroupError", (Exception,), {})("")
    error.worker_failures = {1: TrainingError(RankErrorKind.SILENT, 1, "its thread ended")}
    failure = build_failure(error)
    assert (failure.class_, failure.reason) == ("Application", "TrainFunctionNotReturned")
    assert failure.message == "rank 1: its thread ended"
    assert explain_missing_success().reason == failure.reason
