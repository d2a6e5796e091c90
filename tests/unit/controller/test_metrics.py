"""The metrics as Prometheus reads them; docs/metrics.md describes each."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from railhead.api.status import JobStatus, parse_status
from railhead.contract.failure import FailureClass
from railhead.controller.metrics import Metrics, Sources
from railhead.controller.report.schedule import Urgency
from railhead.kube.client import RequestLabels
from railhead.kube.errors import Denied
from railhead.kube.kinds import POD, TRAIN_JOB
from railhead.kube.watch_state import WatchState

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(railhead_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
TRUE = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
Samples = dict[tuple[str, tuple[str, ...]], float]


class Operator:
    """Values that the test sets."""

    def __init__(self) -> None:
        self.jobs = Counter({"Running": 2, "": 1})
        self.due = 0
        self.is_leading = True
        self.requests = Counter({RequestLabels("create", "pods", 201): 3, RequestLabels("watch", "pods", 0): 1})
        self.now = 0.0
        self.watches = [
            WatchState(kind, namespace, monotonic=lambda: self.now)
            for kind, namespace in ((POD, "a"), (POD, "b"), (TRAIN_JOB, None))
        ]
        self.metrics = Metrics(
            Sources(
                lambda: self.jobs,
                lambda: self.due,
                lambda: self.is_leading,
                lambda: self.requests,
                lambda: self.watches,
                avoided_nodes=lambda: 4,
                oldest_due=lambda: 2.5,
                clock_offset=lambda: -7.0,
            )
        )

    def samples(self) -> Samples:
        """Sample name and label values, ordered by label name -> value."""
        families = text_string_to_metric_families(self.metrics.render().decode())
        return {(s.name, tuple(s.labels.values())): s.value for family in families for s in family.samples}


def at(application: int = 0, infrastructure: int = 0) -> JobStatus:
    return parse_status({"restarts": {"application": application, "infrastructure": infrastructure}})


def test_gauges_are_read_at_scrape_time() -> None:
    operator = Operator()
    samples = operator.samples()
    assert samples["railhead_jobs", ("Running",)] == 2
    assert samples["railhead_jobs", ("Pending",)] == 1  # not reconciled yet
    assert samples["railhead_leader", ()] == 1
    assert samples["railhead_avoided_nodes", ()] == 4
    assert samples["railhead_queue_oldest_seconds", ()] == 2.5
    assert samples["railhead_clock_offset_seconds", ()] == -7
    assert samples["railhead_api_requests_total", ("201", "pods", "create")] == 3
    assert samples["railhead_api_requests_total", ("0", "pods", "watch")] == 1
    operator.jobs, operator.due, operator.is_leading = Counter({"Failed": 1}), 7, False
    samples = operator.samples()
    assert samples["railhead_queue_depth", ()] == 7
    assert samples["railhead_leader", ()] == 0
    assert ("railhead_jobs", ("Running",)) not in samples


def test_passes_are_counted_with_their_duration() -> None:
    operator = Operator()
    for seconds in (0.002, 0.2):
        operator.metrics.count_pass("done", seconds)
    operator.metrics.count_pass("refused", 40.0)
    samples = operator.samples()
    assert samples["railhead_pass_seconds_count", ("done",)] == 2
    assert samples["railhead_pass_seconds_sum", ("done",)] == 0.202
    assert samples["railhead_pass_seconds_bucket", ("0.003", "done")] == 1
    assert samples["railhead_pass_seconds_bucket", ("+Inf", "refused")] == 1


def test_only_new_losses_count_as_restarts() -> None:
    operator = Operator()
    operator.metrics.count_change(at(1, 1), at(1, 3))
    operator.metrics.count_change(at(1, 3), at(1, 3))
    operator.metrics.count_change(at(1, 3), at(0, 0))
    samples = operator.samples()
    assert samples["railhead_restarts_total", ("infrastructure",)] == 2
    assert ("railhead_restarts_total", ("application",)) not in samples


@pytest.mark.parametrize(
    ("end", "class_"),
    [
        ({"conditions": [{**TRUE, "type": "Complete"}], "failure": {"class": "Preemption"}}, "Succeeded"),
        *(({"conditions": [{**TRUE, "type": "Failed"}], "failure": {"class": str(c)}}, str(c)) for c in FailureClass),
        ({"conditions": [{**TRUE, "type": "Failed"}], "failure": {"class": "Novel"}}, "Infrastructure"),
    ],
)
def test_a_job_is_counted_once_when_it_ends(end: dict[str, Any], class_: str) -> None:
    operator, ended = Operator(), parse_status(end)
    operator.metrics.count_change(at(1), at(1))
    operator.metrics.count_change(at(1), ended)
    operator.metrics.count_change(ended, ended)
    found = {key: value for key, value in operator.samples().items() if key[0] == "railhead_finished_jobs_total"}
    assert found == {("railhead_finished_jobs_total", (class_,)): 1}


def test_the_delays_of_reports_are_counted_by_urgency() -> None:
    operator = Operator()
    operator.metrics.count_delay(Urgency.CHECKPOINT, 2.0)
    operator.metrics.count_delay(Urgency.PROGRESS, 40.0)
    samples = operator.samples()
    assert samples["railhead_report_delay_seconds_bucket", ("3.0", "checkpoint")] == 1
    assert samples["railhead_report_delay_seconds_bucket", ("30.0", "progress")] == 0
    assert samples["railhead_report_delay_seconds_count", ("progress",)] == 1


def test_the_age_of_each_watch_is_since_its_last_delivery() -> None:
    operator = Operator()
    operator.now = 100.0
    operator.watches[0].deliver()
    operator.now = 130.0
    samples = operator.samples()
    assert samples["railhead_watch_age_seconds", ("a", "pods")] == 30
    assert samples["railhead_watch_age_seconds", ("b", "pods")] == 130
    assert samples["railhead_watch_age_seconds", ("", "trainjobs")] == 130


def test_only_refused_watches_are_named_until_they_are_accepted() -> None:
    operator = Operator()
    for watch in operator.watches[1:]:
        watch.refuse(Denied(403, "Forbidden", "no right"))
    samples = operator.samples()
    assert samples["railhead_refused_watches", ("b", "pods")] == 1
    assert samples["railhead_refused_watches", ("", "trainjobs")] == 1
    assert ("railhead_refused_watches", ("a", "pods")) not in samples
    operator.watches[1].accept()
    assert ("railhead_refused_watches", ("b", "pods")) not in operator.samples()


def test_the_documentation_lists_every_metric_with_its_type_and_labels() -> None:
    operator = Operator()
    operator.metrics.count_pass("done", 0.1)
    operator.metrics.count_report(202)
    operator.metrics.count_change(at(), at(application=1))
    operator.metrics.count_change(at(), parse_status({"conditions": [{**TRUE, "type": "Complete"}]}))
    operator.metrics.count_delay(Urgency.STATE, 0.1)
    operator.watches[0].refuse(Denied(403, "Forbidden", "no right"))
    found = set()
    for family in text_string_to_metric_families(operator.metrics.render().decode()):
        if family.name.startswith("railhead_"):
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found.add((name, family.type, frozenset(labels)))
    documented = {
        (name, type_, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, type_, labels in ROW.findall(DOCUMENT.read_text())
    }
    assert documented == found


def test_finished_jobs_leave_no_growing_series() -> None:
    operator = Operator()
    operator.metrics.count_pass("done", 0.1)
    operator.metrics.count_report(202)
    before = len(operator.metrics.render().splitlines())
    for _ in range(1000):
        operator.metrics.count_pass("done", 0.1)
        operator.metrics.count_report(202)
    assert len(operator.metrics.render().splitlines()) == before
