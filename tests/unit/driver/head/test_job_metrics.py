"""A job's own metrics by its report; docs/how-to/job-metrics.md describes each. Prometheus' own parser reads them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from railhead.contract.report import CommittedCheckpoint, Report, RestartInPlace, RunWarning, SlowRank, Steps
from railhead.driver.head.job_metrics import MOST_SERIES, Metric, list_metrics, write_job_metrics, write_metrics
from railhead.driver.head.publisher import Publisher
from railhead.driver.mailbox.heartbeat import MOST_GPUS, GpuUse, Heartbeat, Uploads
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import FromController
from tests.unit.driver.mailboxes import tell

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "job-metrics.md"
NEW = Report(namespace="ns", name="n", uid="u", attempt=2, state="STARTING")
CHECKPOINT = CommittedCheckpoint("s3://b/r/c", 7, "2026-01-02T03:04:05Z", {})
STEPS = Steps(30, 120, "2.5", "1e3", 25, 36)
TRAINING = replace(
    NEW, state="RUNNING", reports=4, joined=2, workers=8, steps=STEPS, checkpoint=CHECKPOINT, metrics={"loss": "0.5"}
)
WARNED = replace(
    TRAINING,
    warning=RunWarning("NoSteps", "no rank made a step"),
    slow_ranks=(SlowRank(7, "w7", "0.68", "2026-01-02T03:04:05Z"), SlowRank(8, "w8")),
)
RESTARTED = FromController().with_restart(RestartInPlace(1, 1, "Application"))
UPLOADED = replace(
    RESTARTED, heartbeat=Heartbeat(9, 9, 9, False, STEPS, Uploads(3, 4.5, 6000), (GpuUse(1, 20, 80, 50, 7),), 12.5)
)


NO_FIT = FromController()


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The values by name and labels."""
    families = text_string_to_metric_families(text)
    return {(each.name, tuple(each.labels.items())): each.value for family in families for each in family.samples}


def values(report: Report, fit: FromController = NO_FIT) -> dict[str, float]:
    """By name, with the values of the labels."""
    found = {}
    for metric in list_metrics(report, fit):
        for labels, value in metric.series:
            found["/".join((metric.name.removeprefix("railhead_job_"), *(text for _, text in labels)))] = value
    return found


def test_what_is_not_known_is_absent() -> None:
    states = {f"state/{state}": float(state == "STARTING") for state in ("STARTING", "SCHEDULING", "RUNNING")}
    rest = {"state/RESTARTING": 0.0, "state/FINISHED": 0.0, "state/ERRORED": 0.0}
    assert values(NEW) == {**states, **rest, "attempt": 2, "worker_pods": 0, "workers": 0, "reports_total": 0}


def test_the_numbers_of_a_job_that_trains() -> None:
    found = values(TRAINING)
    assert found["state/RUNNING"] == 1 and found["state/STARTING"] == 0
    assert {name: value for name, value in found.items() if not name.startswith("state/")} == {
        "attempt": 2,
        "worker_pods": 2,
        "workers": 8,
        "step": 30,
        "steps": 120,
        "steps_per_second": 2.5,
        "tokens_per_second": 1000,
        "progress_ratio": 0.25,
        "remaining_seconds": 36,
        "reports_total": 4,
        "checkpoint_index": 7,
        "checkpoint_timestamp_seconds": 1767323045,
        "reported/loss": 0.5,
    }


def test_a_slow_rank_has_its_score() -> None:
    assert {name: value for name, value in values(WARNED).items() if "slow" in name} == {"slow_rank_score/7": 0.68}


def test_restarts_are_counted_by_class() -> None:
    fit = RESTARTED
    for number, cause in ((2, "Hang"), (3, "Application")):
        fit = fit.with_restart(RestartInPlace(number, number, cause))
    assert fit.restart is not None and fit.restart.number == 3
    found = values(TRAINING, fit)
    assert (found["restarts_total/Application"], found["restarts_total/Hang"]) == (2, 1)


def test_uploads_are_known_from_the_first_heartbeat_on() -> None:
    found = values(TRAINING, UPLOADED)
    names = [f"checkpoint_upload{name}_total" for name in ("s", "_seconds", "_bytes")]
    assert [found[name] for name in names] == [3, 4.5, 6000]
    assert found["report_seconds_total"] == 12.5
    assert not {*names, "report_seconds_total"} & set(values(TRAINING, RESTARTED))


def test_a_gpu_is_labelled_by_its_rank_and_its_number_there() -> None:
    found = {name: value for name, value in values(TRAINING, UPLOADED).items() if name.startswith("gpu")}
    assert found == {"gpu_utilization_ratio/7/1": 0.5, "gpu_memory_used_bytes/7/1": 20, "gpu_memory_bytes/7/1": 80}


def test_the_gpus_of_the_largest_job_leave_all_else_its_place() -> None:
    gpus = tuple(GpuUse(number % 8, 1, 2, 3, rank=number // 8) for number in range(MOST_GPUS))
    fit = replace(UPLOADED, heartbeat=Heartbeat(9, 9, 9, False, STEPS, gpus=gpus))
    reported = replace(WARNED, metrics={f"m{number}": "1" for number in range(64)})
    assert len(read(write_metrics(list_metrics(reported, fit)))) == len(values(reported, fit)) < MOST_SERIES


def test_a_warning_has_its_reason_and_no_message() -> None:
    assert values(WARNED)["warning/NoSteps"] == 1


@pytest.mark.parametrize("text", ["", "on", "1,5", "0x10", "one two"])
def test_a_reported_text_is_no_metric(text: str) -> None:
    assert not [name for name in values(replace(TRAINING, metrics={"a": text})) if name.startswith("reported/")]


def test_credentials_in_the_name_of_a_reported_metric_are_hidden() -> None:
    name = "https://user:hunter2@host/loss"
    [found] = [each for each in values(replace(TRAINING, metrics={name: "1"})) if each.startswith("reported/")]
    assert "hunter2" not in found


def test_a_page_describes_each_metric() -> None:
    rows = re.findall(r"^\| `(railhead_job_\w+)` \| (\w+) \| (.*?) \|", DOCUMENT.read_text(), re.MULTILINE)
    kinds = {metric.name: (metric.kind, metric.series) for metric in list_metrics(WARNED, UPLOADED)}
    labels = {name: [key for key, _ in series[0][0]] for name, (_, series) in kinds.items()}
    assert {name: kind for name, kind, _ in rows} == {name: kind for name, (kind, _) in kinds.items()}
    assert {name: re.findall(r"`(\w+)`", text) for name, _, text in rows} == labels


def test_they_are_written_from_the_mailbox(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    publisher = Publisher(endpoint=None, mailbox=mailbox, base=NEW)
    progress = replace(mailbox.controller.read().progress, metrics={f"m{n}": "1" for n in range(64)}, reports=9)
    tell(mailbox.controller, progress=progress, restarts=RESTARTED.restarts)
    found = read(write_job_metrics(publisher, mailbox))
    assert found["railhead_job_reports_total", ()] == 9
    assert found["railhead_job_restarts_total", (("class", "Application"),)] == 1
    assert 64 < len(found) < MOST_SERIES


@pytest.mark.parametrize("value", [0.0, -1.0, 3.0, 0.1 + 0.2, 1e300, 2.0**53 + 2, math.inf, -math.inf])
def test_a_number_keeps_its_value(value: float) -> None:
    text = write_metrics([Metric("a_seconds", "gauge", "A.", (((), value),))])
    assert read(text) == {("a_seconds", ()): value}


def test_no_number_is_written_as_nan() -> None:
    [value] = read(write_metrics([Metric("a", "gauge", "A.", (((), math.nan),))])).values()
    assert math.isnan(value)


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", 'a\\"} 1\n', "ü{}", ""])
def test_the_value_of_a_label_is_only_a_value(value: str) -> None:
    text = write_metrics([Metric("a_total", "counter", "A.", (((("name", value), ("x", "y")), 2),))])
    assert read(text) == {("a_total", (("name", value), ("x", "y"))): 2.0}
    assert len(text.splitlines()) == 3


def test_a_metric_without_a_series_is_absent() -> None:
    assert write_metrics([Metric("a", "gauge", "A.", ())]) == ""


def test_there_are_never_more_series_than_the_bound() -> None:
    many = tuple(((("rank", str(rank)),), float(rank)) for rank in range(7))
    metrics = [Metric("a", "gauge", "A.", many), Metric("b", "gauge", "B.", many), Metric("c", "gauge", "C.", many)]
    found = [name for name, _ in read(write_metrics(metrics, most=10))]
    assert found == ["a"] * 7 + ["b"] * 3
