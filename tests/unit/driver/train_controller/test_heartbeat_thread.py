"""At each poll: who has returned, and after SIGTERM every rank is notified once, as Ray's own watcher would.

The stacks are in tests/unit/driver/head/test_hang_watch.py, with the detector that asks for them.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport
from ray.train.v2.api import preemption

from railhead.contract import environment as e
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import RankErrorKind, TrainingError
from railhead.driver.rank import rank_stacks
from railhead.driver.rank.run_rank import BEGUN, NOT_BEGUN, RAISED, RETURNED, RankEnd
from railhead.driver.rank.steps import RankProgress, read_beat
from railhead.driver.ray.steps_callback import StepsCallback
from railhead.driver.train_controller import end_notice_step, returns_step
from railhead.driver.train_controller.end_notice_step import EndNoticeStep
from railhead.driver.train_controller.failures.classify_failure import explain_missing_success
from railhead.driver.train_controller.failures.ray_exceptions import build_failure
from railhead.driver.train_controller.progress_step import ProgressStep
from railhead.driver.train_controller.returns_step import ReturnsStep
from railhead.driver.train_controller.worker_group import Group, RankAnswer
from tests.unit.driver.mailboxes import tell


class Notified:
    """Three ranks on two nodes; `notices` is what each of them receives, `begun` how many reports rank 0 has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notices: list[tuple[int, Any]] = []
        self.begun: RankAnswer[Any] = RankAnswer(RankProgress())
        self.known = Group()
        monkeypatch.setattr(end_notice_step, "call_ranks", self._ask)
        self._workers = [self._make(rank, node) for rank, node in enumerate(("a", "b", "a"))]

    def _make(self, rank: int, node: str) -> Any:
        mark = SimpleNamespace(remote=lambda info: self.notices.append((rank, info)))
        metadata = SimpleNamespace(node_id=node, pid=1, node_ip="10.0.0.2", hostname=node)
        return SimpleNamespace(metadata=metadata, actor=SimpleNamespace(mark_preempt=mark))

    def _ask(self, group: object, ranks: list[int], function: object, *, timeout: float) -> dict[int, RankAnswer[Any]]:
        assert (group, ranks, function, self.notices) == (self, [0], read_beat, []), "the notice comes after it"
        return {0: self.begun}

    def get_workers(self) -> list[Any]:
        return self._workers


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    return Mailbox(tmp_path)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Any:
    return Notified(monkeypatch)


@pytest.fixture
def notice(mailbox: Mailbox, group: Any) -> Any:
    return EndNoticeStep(group.known, mailbox)


def test_all_ranks_are_notified_once_after_sigterm(notice: Any, group: Any, mailbox: Mailbox) -> None:
    notice.after_poll(None, group)
    assert not group.notices
    tell(mailbox.driver, end=1_700_000_000.5)
    notice.after_poll(None, group)
    notice.after_poll(None, group)
    assert [rank for rank, _ in group.notices] == [0, 1, 2]
    for _, info in group.notices:
        assert info.deadline_ms == 1_700_000_000_500
        assert info.preempted_node_to_ranks == {"a": [0, 2], "b": [1]} and info.preempted_ranks == [0, 1, 2]


def test_a_notice_that_fails_is_sent_again(
    notice: Any, group: Any, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(mailbox.driver, end=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(group, "get_workers", lambda: fail())
        notice.after_poll(None, group)
    assert not group.notices
    notice.after_poll(None, group)
    notice.after_poll(None, group)
    assert [rank for rank, _ in group.notices] == [0, 1, 2]


def fail() -> None:
    raise ValueError("Worker group is not active.")


def test_logs_a_ray_that_cannot_notify_and_does_not_raise(
    notice: Any,
    group: Any,
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delattr(preemption, "PreemptionInfo")
    tell(mailbox.driver, end=1.0)
    notice.after_poll(None, group)
    assert (
        not group.notices
        and "cannot notify the ranks that the run ends (Ray 2.58 or newer can)" in capsys.readouterr().out
    )


class Reports:
    """Of the whole group, as Ray Train's controller receives them, in the order in which they began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mailbox: Mailbox, group: Any) -> None:
        monkeypatch.setenv("RAILHEAD_RUN", "")
        RunContext("/runs/r").write()
        self.mailbox, self.group = mailbox, group
        storage = StorageContext(storage_path=os.environ[e.TEMP], experiment_dir_name="r")
        self.manager = CheckpointManager(CheckpointConfig(), storage)
        self.checkpoint = Checkpoint(f"{storage.experiment_fs_path}/c")
        known: Group = group.known
        self.callback = StepsCallback([known, ProgressStep(known, mailbox, RunContext.read())])
        self.start_group()

    def start_group(self) -> None:
        metadata = SimpleNamespace(node_id="n", pid=1, node_ip="10.0.0.2", hostname="w")
        workers: Any = SimpleNamespace(
            get_workers=lambda: [SimpleNamespace(metadata=metadata)], _callbacks=[self.manager]
        )
        self.callback.after_worker_group_start(workers)

    def arrive(self, *, has_checkpoint: bool) -> bool:
        """Whether the driver has its last commit."""
        checkpoint = self.checkpoint if has_checkpoint else None
        self.callback.after_report(_TrainingReport(checkpoint, {}, False), [{}])
        return self.mailbox.controller.read().progress.has_last_commit


@pytest.mark.parametrize("in_progress", [0, 1, 2])
def test_the_last_commit_is_of_a_report_that_began_after_the_notice(
    monkeypatch: pytest.MonkeyPatch, notice: Any, group: Any, mailbox: Mailbox, in_progress: int
) -> None:
    """With ASYNC, uploads that began earlier end later."""
    reports = Reports(monkeypatch, mailbox, group)
    assert not reports.arrive(has_checkpoint=True)
    reports.start_group()  # the processes of its ranks count from 0
    assert not reports.arrive(has_checkpoint=False)
    assert not reports.arrive(has_checkpoint=True)
    group.begun = RankAnswer(RankProgress(reports=2 + in_progress))
    tell(mailbox.driver, end=1.0)
    notice.after_poll(None, group)
    assert not any(reports.arrive(has_checkpoint=True) for _ in range(in_progress))
    assert not reports.arrive(has_checkpoint=False), "a report of metrics saves nothing"
    assert reports.arrive(has_checkpoint=True)
    assert reports.arrive(has_checkpoint=False), "the driver may read late"


@pytest.mark.parametrize(
    "answer", [RankAnswer(), RankAnswer(error=RuntimeError("the actor died"))], ids=["late", "dead"]
)
def test_the_next_commit_is_the_last_if_rank_0_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, notice: Any, group: Any, mailbox: Mailbox, answer: RankAnswer[Any]
) -> None:
    reports = Reports(monkeypatch, mailbox, group)
    assert not reports.arrive(has_checkpoint=True)
    group.begun = answer
    tell(mailbox.driver, end=1.0)
    notice.after_poll(None, group)
    assert len(group.notices) == 3
    assert reports.arrive(has_checkpoint=True)


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


@pytest.mark.parametrize(
    ("stage", "reports", "expected"),
    [
        ("started", (3, 1), "at m.py:7 in train, inside ray, in call 3 of ray.train.report"),
        ("started", (3, 0), "at m.py:7 in train, inside ray"),
        ("returned", (2, 0), "no longer in train_func, which has returned after 2 calls of ray.train.report"),
    ],
)
def test_a_rank_says_for_which_report_it_waits(
    monkeypatch: pytest.MonkeyPatch, stage: str, reports: tuple[int, int], expected: str
) -> None:
    monkeypatch.setattr(rank_stacks, "read_end", lambda: RankEnd(stage))
    monkeypatch.setattr(rank_stacks, "read_beat", lambda: RankProgress(reports=reports[0], open_reports=reports[1]))
    assert rank_stacks._add_report("at m.py:7 in train, inside ray") == expected
    assert rank_stacks._add_report("").startswith(("outside train_func", "no longer in train_func"))
