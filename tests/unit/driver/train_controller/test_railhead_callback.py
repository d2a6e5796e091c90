"""The order of the steps, and what depends on it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.driver.container.run_context import RunContext
from railhead.driver.train_controller.railhead_callback import RailheadCallback
from railhead.driver.train_controller.worker_group import get_group


@pytest.fixture
def callback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RailheadCallback:
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    monkeypatch.setenv("RAILHEAD_RUN", "")
    RunContext(str(tmp_path / "r")).write()
    return RailheadCallback()


def test_the_steps_are_done_in_this_order(callback: RailheadCallback) -> None:
    assert [type(step).__name__ for step in callback._steps] == [
        "Group",
        "FenceStep",
        "Barriers",
        "ProgressStep",
        "HistoryStep",
        "OldProcessesStep",
        "SharedStorageStep",
        "MetricRulesStep",
        "ReturnsStep",
        "ValidationsStep",
        "StacksStep",
        "EndNoticeStep",
    ]


def test_all_steps_have_one_group_also_in_the_controller(callback: RailheadCallback, tmp_path: Path) -> None:
    group = get_group(str(tmp_path / "r"))
    for each in (callback, pickle.loads(pickle.dumps(callback))):
        assert each._steps[0] is group
        assert {id(step._group) for step in each._steps if hasattr(step, "_group")} == {id(group)}
    assert get_group("/runs/other") is not group
