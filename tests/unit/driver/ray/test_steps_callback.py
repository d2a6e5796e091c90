"""Each of Ray's calls reaches the steps in their order; new workers of a running group reach some of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railhead.driver.messages.log import never_raises
from railhead.driver.ray.steps_callback import ControllerStep, StepsCallback


class Noted(ControllerStep):
    """Notes each call with its name."""

    def __init__(self, name: str, calls: list[tuple[str, str]]) -> None:
        self.name, self.calls = name, calls

    def before_group_start(self, size: int) -> None:
        self.calls.append((self.name, f"before_group_start {size}"))

    def before_training_context(self, workers: Any) -> None:
        self.calls.append((self.name, "before_training_context"))

    def started(self, part: Any, whole: Any) -> None:
        self.calls.append((self.name, "started" if part is whole else "started in part"))
        super().started(part, whole)

    def after_group_start(self, worker_group: Any) -> None:
        self.calls.append((self.name, "after_group_start"))

    def after_poll(self, status: Any, group: Any) -> None:
        self.calls.append((self.name, "after_poll"))

    def after_report(self, report: Any, metrics: Any) -> None:
        self.calls.append((self.name, f"after_report {metrics}"))

    def after_state(self, name: str) -> None:
        self.calls.append((self.name, f"after_state {name}"))

    def after_finish(self) -> None:
        self.calls.append((self.name, "after_finish"))


class Workers:
    """A worker group, or a part of one."""

    def __init__(self, *workers: object) -> None:
        self.workers = list(workers)
        self._worker_group_state: object = "forms"

    def get_workers(self) -> list[Any]:
        return self.workers


@pytest.fixture
def calls() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def callback(calls: list[tuple[str, str]]) -> Any:
    return StepsCallback([Noted("a", calls), Noted("b", calls)])


def test_each_call_reaches_all_steps_in_their_order(callback: Any, calls: list[tuple[str, str]]) -> None:
    state = SimpleNamespace(_state_type=SimpleNamespace(state_name="RUNNING"))
    callback.before_worker_group_start(SimpleNamespace(num_workers=2))
    assert callback.before_init_train_context([]) == {}
    callback.after_worker_group_start(Workers())
    callback.after_worker_group_poll_status(None)
    callback.after_report(None, [{"loss": 1.0}, {"loss": 9.0}])
    callback.after_controller_state_update(None, state)
    callback.after_controller_finish(None)
    names = [
        "before_group_start 2", "before_training_context", "after_group_start", "after_poll",
        "after_report {'loss': 1.0}", "after_state RUNNING", "after_finish",
    ]  # fmt: skip
    assert [call for call in calls if call[1] != "started"] == [(step, name) for name in names for step in "ab"]


def test_the_steps_get_the_reports_own_metrics_if_ray_has_none_by_rank(callback: Any, calls: list[Any]) -> None:
    callback.after_report(SimpleNamespace(metrics={"loss": 2.0}), [])
    callback.after_report(SimpleNamespace(metrics=None), [])
    assert [call for step, call in calls if step == "a"] == ["after_report {'loss': 2.0}", "after_report {}"]


def test_a_part_that_ray_has_replaced_reaches_the_steps_and_one_of_the_first_start_does_not(
    callback: Any, calls: list[tuple[str, str]]
) -> None:
    first, second, third = SimpleNamespace(), SimpleNamespace(), SimpleNamespace()
    callback.after_worker_group_start(Workers(first, second))
    calls.clear()
    callback.after_replica_group_start(Workers(first))
    assert calls == []
    callback.after_replica_group_start(Workers(third))
    assert calls == [("a", "started in part"), ("b", "started in part")]


def test_no_step_sees_a_poll_or_a_part_before_a_group_has_started(callback: Any, calls: list[tuple[str, str]]) -> None:
    callback.after_worker_group_poll_status(None)
    callback.after_replica_group_start(Workers(SimpleNamespace()))
    assert calls == []


def test_a_step_that_ends_the_start_of_a_group_ends_it_for_the_later_ones(
    callback: Any, calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: Any, part: Any, whole: Any) -> None:
        calls.append((step.name, "raises"))
        raise ValueError("no")

    monkeypatch.setattr(Noted, "started", fail)
    group = Workers()
    with pytest.raises(ValueError, match="no"):
        callback.after_worker_group_start(group)
    assert calls == [("a", "raises")]
    assert group._worker_group_state is None, "else Ray keeps its resources, and there are none for the next group"


def test_a_step_without_which_a_run_is_as_good_says_what_it_cannot_do(capsys: pytest.CaptureFixture[str]) -> None:
    @never_raises("record progress")
    def record() -> None:
        raise OSError("no space")

    record()
    assert "cannot record progress: OSError: no space" in capsys.readouterr().out
