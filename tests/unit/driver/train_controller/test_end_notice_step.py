"""The notice of the end: once, to all ranks, after rank 0 has said how many reports it has begun."""

from __future__ import annotations

import os
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
from railhead.driver.rank.steps import RankProgress, read_beat
from railhead.driver.ray.steps_callback import StepsCallback
from railhead.driver.train_controller import end_notice_step
from railhead.driver.train_controller.end_notice_step import EndNoticeStep
from railhead.driver.train_controller.progress_step import ProgressStep
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
