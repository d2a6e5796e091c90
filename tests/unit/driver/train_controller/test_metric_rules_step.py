"""The step in Ray Train's controller: which error a rule becomes, exactly once, and which warning the driver gets."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.contract.answer import Answer
from railhead.contract.metric_rule import MetricRule
from railhead.contract.report import RunWarning, Steps
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.train_controller import metric_rules_step
from railhead.driver.train_controller.metric_rules_step import MetricRulesStep
from railhead.driver.train_controller.worker_group import Group
from tests.unit.driver.mailboxes import tell

NAN = math.nan


class Controller:
    """Calls the step as Ray Train's controller does, at the time that a test sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *rules: MetricRule) -> None:
        self.time = 1000.0
        monkeypatch.setattr(metric_rules_step, "time", SimpleNamespace(monotonic=lambda: self.time))
        self.mailbox, self.group = Mailbox(folder), Group()
        tell(self.mailbox.driver, answer=Answer(metric_rules=rules))
        self.step = MetricRulesStep(self.group, self.mailbox)
        self.start_group()

    def start_group(self) -> None:
        self.step.started(self.group_of_ray, self.group_of_ray)

    group_of_ray: Any = SimpleNamespace()

    def report(self, *, commit: bool = False, **metrics: Any) -> Any:
        """Returns the error of rank 0 after the poll that brought this report."""
        self.group.commits += commit
        checkpoint = SimpleNamespace(path="/c") if commit else None
        report: Any = SimpleNamespace(checkpoint=checkpoint, metrics=metrics)
        self.step.after_report(report, metrics)
        return self.poll()

    def poll(self, *, error: Exception | None = None, after: float = 0.0) -> Any:
        self.time += after
        statuses = {rank: SimpleNamespace(running=True, error=error if rank else None) for rank in (0, 1)}
        status: Any = SimpleNamespace(worker_statuses=statuses, finished=False)
        self.step.after_poll(status, self.group_of_ray)
        return statuses[0].error

    @property
    def warning(self) -> RunWarning | None:
        return self.mailbox.controller.read().rule_warning


def make_rule(action: str, **changes: Any) -> MetricRule:
    values = {"name": "nan", "type": "IsNaN", "metric": "loss", **changes}
    return MetricRule(action=action, **values)


IS_NAN = "rule nan: loss is NaN at step 3 (spec.metricPolicy.rules[nan])"


@pytest.mark.parametrize(
    ("action", "kind"), [("Fail", RankErrorKind.RULED_OUT), ("Restart", RankErrorKind.RULED_AGAIN)]
)
def test_a_rule_becomes_an_error_of_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, kind: RankErrorKind
) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule(action))
    assert controller.report(loss=1.0, step=2) is None
    error = controller.report(loss=NAN, step=3)
    assert (error.kind, error.rank, error.text) == (kind, -1, IS_NAN)
    assert controller.warning is None


def test_a_restart_at_the_same_step_ends_the_job_and_one_at_a_later_step_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule("Restart"))
    controller.report(commit=True, loss=1.0, step=1)
    controller.report(loss=1.0, step=2)
    assert controller.report(loss=NAN, step=3).kind is RankErrorKind.RULED_AGAIN
    controller.start_group()
    controller.report(loss=1.0, step=2)
    controller.report(loss=1.0, step=3)
    assert controller.report(loss=NAN, step=4).kind is RankErrorKind.RULED_AGAIN, "other data, and the loss fell longer"
    controller.start_group()
    controller.report(loss=1.0, step=2)
    controller.report(commit=True, loss=1.0, step=3)
    assert controller.report(loss=NAN, step=4).kind is RankErrorKind.RULED_AGAIN, "with a new checkpoint"
    controller.start_group()
    error = controller.report(loss=NAN, step=4)
    assert error.kind is RankErrorKind.RULED_OUT
    assert error.text.endswith(
        "(spec.metricPolicy.rules[nan]): the worker group has restarted for it before this step "
        "was passed, so the job fails"
    )


def test_a_rule_that_was_changed_has_not_restarted_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule("Restart"))
    assert controller.report(loss=NAN).kind is RankErrorKind.RULED_AGAIN
    tell(controller.mailbox.driver, answer=Answer(metric_rules=(make_rule("Restart", consecutive=2),)))
    controller.start_group()
    assert controller.report(loss=NAN) is None
    assert controller.report(loss=NAN).kind is RankErrorKind.RULED_AGAIN


def test_a_warning_lasts_as_long_as_what_it_warns_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule("Warn"))
    assert controller.report(loss=NAN, step=3) is None
    assert controller.warning == RunWarning("MetricRule", IS_NAN)
    controller.report(loss=NAN, step=4)
    assert controller.warning == RunWarning("MetricRule", IS_NAN), "the words of its begin: no other status write"
    controller.report(loss=0.5, step=5)
    assert controller.warning is None
    controller.report(loss=NAN, step=3)
    assert controller.warning is not None
    controller.start_group()
    assert controller.warning is None


def test_another_failure_and_the_end_of_the_run_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule("Restart"))
    tell(controller.mailbox.driver, end=1.0)
    assert controller.report(loss=NAN) is None
    tell(controller.mailbox.driver, end=None)
    assert controller.poll(error=ValueError("no")) is None
    assert controller.poll().kind is RankErrorKind.RULED_AGAIN


def test_rules_that_arrive_while_training_runs_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(tmp_path, monkeypatch)
    assert controller.report(loss=NAN) is None
    tell(controller.mailbox.driver, answer=Answer(metric_rules=(make_rule("Fail"),)))
    assert controller.poll() is None
    assert controller.report(loss=NAN).kind is RankErrorKind.RULED_OUT


def test_a_controller_that_was_suspended_saw_no_commits_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = make_rule("Warn", type="NoCheckpoint", metric="", window_seconds=60)
    controller = Controller(tmp_path, monkeypatch, rule)
    controller.poll(after=3600)
    assert controller.warning is None
    controller.poll(after=25)
    assert controller.warning is None
    controller.poll(after=5)
    assert controller.warning is not None
    controller.time += 3600  # the pods of the next group start
    controller.start_group()
    controller.poll(after=20)
    assert controller.warning is None


@pytest.mark.parametrize("steps", [Steps(), Steps(step=40)])
def test_a_rate_without_a_metric_is_that_of_the_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Steps
) -> None:
    rule = make_rule("Warn", type="RateBelow", metric="", threshold="0.5", window_seconds=60)
    controller = Controller(tmp_path, monkeypatch, rule)
    tell(controller.mailbox.controller, heartbeat=Heartbeat(1, 40, 40, False, steps))
    for _ in range(13):
        controller.poll(after=5)
    assert controller.warning is not None and "the ranks made 0 steps per second for 60 s" in controller.warning.message


def test_a_metric_that_is_missing_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule("Fail", metric="lss"))
    for _ in range(3):
        controller.report(loss=0.5)
    for _ in range(20):
        controller.poll(after=30)
    assert controller.warning is not None and controller.warning.reason == "MetricMissing"
    assert "no report so far has a number in 'lss'" in controller.warning.message


@pytest.mark.parametrize(("value", "text"), [("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")])
def test_a_metric_that_is_no_number_is_named_without_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, text: str
) -> None:
    controller = Controller(tmp_path, monkeypatch)
    controller.report(loss=0.5, step=1)
    assert controller.warning is None
    for step in (2, 3):
        controller.report(loss=float(value), step=step)
    assert controller.warning is not None and controller.warning.reason == "MetricNotFinite"
    assert controller.warning.message == (
        f"loss is {text}, first at step 2; no rule of spec.metricPolicy ends the job for it"
    )
    controller.report(loss=0.5, step=4)
    assert controller.warning is None


def test_a_rule_for_nan_speaks_for_its_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(tmp_path, monkeypatch, make_rule("Warn", metric="loss"))
    controller.report(loss=float("nan"), other=1.0)
    controller.poll()
    assert controller.warning is not None and controller.warning.reason == "MetricRule"


def test_ray_pickles_the_step_into_its_controller(tmp_path: Path) -> None:
    step = pickle.loads(pickle.dumps(MetricRulesStep(Group("/runs/r"), Mailbox(tmp_path))))
    assert isinstance(step, MetricRulesStep)
