"""After SIGTERM every rank is notified once, as Ray's own watcher would."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train.v2.api import preemption

from railhead.contract import environment as e
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller.end_notice import EndNoticeCallback


class Group:
    """Three ranks on two nodes; `notices` is what each of them receives."""

    def __init__(self) -> None:
        self.notices: list[tuple[int, Any]] = []
        self._workers = [self._make(rank, node) for rank, node in enumerate(("a", "b", "a"))]

    def _make(self, rank: int, node: str) -> Any:
        mark = SimpleNamespace(remote=lambda info: self.notices.append((rank, info)))
        return SimpleNamespace(metadata=SimpleNamespace(node_id=node), actor=SimpleNamespace(mark_preempt=mark))

    def get_workers(self) -> list[Any]:
        return self._workers


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    return Spool(tmp_path)


@pytest.fixture
def group() -> Group:
    return Group()


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
