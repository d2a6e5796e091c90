"""After SIGTERM every rank is notified once, as Ray's own watcher would."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train import Checkpoint
from ray.train.v2._internal.execution.training_report import _TrainingReport
from ray.train.v2.api import preemption

from railhead.contract import environment as e
from railhead.driver.rank.uploads import count_reports
from railhead.driver.reporting.progress import Progress
from railhead.driver.reporting.spool import Spool
from railhead.driver.run_context import RunContext
from railhead.driver.train_controller import end_notice
from railhead.driver.train_controller import group as groups
from railhead.driver.train_controller.callback import ProgressCallback
from railhead.driver.train_controller.end_notice import EndNoticeCallback
from railhead.driver.train_controller.workers import Answer


class Group:
    """Three ranks on two nodes; `notices` is what each of them receives, `begun` how many reports rank 0 has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notices: list[tuple[int, Any]] = []
        self.begun: Answer = Answer(0)
        monkeypatch.setattr(groups, "CURRENT", groups.Group())
        monkeypatch.setattr(end_notice, "call_ranks", self._ask)
        self._workers = [self._make(rank, node) for rank, node in enumerate(("a", "b", "a"))]

    def _make(self, rank: int, node: str) -> Any:
        mark = SimpleNamespace(remote=lambda info: self.notices.append((rank, info)))
        return SimpleNamespace(metadata=SimpleNamespace(node_id=node), actor=SimpleNamespace(mark_preempt=mark))

    def _ask(self, group: object, ranks: list[int], function: object, *, timeout: float) -> dict[int, Answer]:
        assert (group, ranks, function, self.notices) == (self, [0], count_reports, []), "the notice comes after it"
        return {0: self.begun}

    def get_workers(self) -> list[Any]:
        return self._workers


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    return Spool(tmp_path)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(monkeypatch)


@pytest.fixture
def callback(spool: Spool, group: Group) -> EndNoticeCallback:
    callback = EndNoticeCallback()
    callback.after_worker_group_start(group)
    return callback


def test_all_ranks_are_notified_once_after_sigterm(callback: EndNoticeCallback, group: Group, spool: Spool) -> None:
    callback.after_worker_group_poll_status(None)
    assert not group.notices
    spool.write_end(1_700_000_000.5)
    callback.after_worker_group_poll_status(None)
    callback.after_worker_group_poll_status(None)
    assert [rank for rank, _ in group.notices] == [0, 1, 2]
    for _, info in group.notices:
        assert info.deadline_ms == 1_700_000_000_500
        assert info.preempted_node_to_ranks == {"a": [0, 2], "b": [1]} and info.preempted_ranks == [0, 1, 2]


def test_a_notice_that_fails_is_sent_again(
    callback: EndNoticeCallback, group: Group, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.write_end(1.0)
    with monkeypatch.context() as patch:
        patch.setattr(group, "get_workers", lambda: fail())
        callback.after_worker_group_poll_status(None)
    assert not group.notices
    callback.after_worker_group_poll_status(None)
    callback.after_worker_group_poll_status(None)
    assert [rank for rank, _ in group.notices] == [0, 1, 2]


def fail() -> None:
    raise ValueError("Worker group is not active.")


def test_logs_a_ray_that_cannot_notify_and_does_not_raise(
    callback: EndNoticeCallback,
    group: Group,
    spool: Spool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delattr(preemption, "PreemptionInfo")
    spool.write_end(1.0)
    callback.after_worker_group_poll_status(None)
    assert (
        not group.notices
        and "cannot notify the ranks that the run ends (Ray 2.58 or newer can)" in capsys.readouterr().out
    )


class Reports:
    """Of the whole group, as Ray Train's controller receives them, in the order in which they began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spool: Spool, group: Group) -> None:
        monkeypatch.setenv("RAILHEAD_RUN", "")
        RunContext("/runs/r").write()
        self.spool, self.group = spool, group
        self.callback = ProgressCallback()
        self.start_group()

    def start_group(self) -> None:
        self.callback.after_worker_group_start(
            SimpleNamespace(
                get_workers=lambda: [
                    SimpleNamespace(metadata=SimpleNamespace(node_id="n", pid=1, node_ip="10.0.0.2", hostname="w"))
                ]
            )
        )

    def arrive(self, *, has_checkpoint: bool) -> bool:
        """Whether the driver has its last commit."""
        checkpoint = Checkpoint("/runs/r/c") if has_checkpoint else None
        self.callback.after_report(_TrainingReport(checkpoint, {}, False), [{}])
        return Progress.from_dict(self.spool.read()).has_last_commit


@pytest.mark.parametrize("in_progress", [0, 1, 2])
def test_the_last_commit_is_of_a_report_that_began_after_the_notice(
    monkeypatch: pytest.MonkeyPatch, callback: EndNoticeCallback, group: Group, spool: Spool, in_progress: int
) -> None:
    """With ASYNC, uploads that began earlier end later."""
    reports = Reports(monkeypatch, spool, group)
    assert not reports.arrive(has_checkpoint=True)
    reports.start_group()  # the processes of its ranks count from 0
    assert not reports.arrive(has_checkpoint=False)
    assert not reports.arrive(has_checkpoint=True)
    group.begun = Answer(2 + in_progress)
    spool.write_end(1.0)
    callback.after_worker_group_poll_status(None)
    assert not any(reports.arrive(has_checkpoint=True) for _ in range(in_progress))
    assert not reports.arrive(has_checkpoint=False), "a report of metrics saves nothing"
    assert reports.arrive(has_checkpoint=True)
    assert reports.arrive(has_checkpoint=False), "the driver may read late"


@pytest.mark.parametrize("answer", [Answer(), Answer(error=RuntimeError("the actor died"))], ids=["late", "dead"])
def test_the_next_commit_is_the_last_if_rank_0_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, callback: EndNoticeCallback, group: Group, spool: Spool, answer: Answer
) -> None:
    reports = Reports(monkeypatch, spool, group)
    assert not reports.arrive(has_checkpoint=True)
    group.begun = answer
    spool.write_end(1.0)
    callback.after_worker_group_poll_status(None)
    assert len(group.notices) == 3
    assert reports.arrive(has_checkpoint=True)
