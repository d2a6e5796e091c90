"""The metrics as Prometheus reads them; docs/metrics.md describes each."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from railhead.api.status import JobStatus, parse_status
from railhead.controller.metrics import Metrics, Sources
from railhead.kube.client import RequestLabels
from railhead.kube.errors import Denied
from railhead.kube.kinds import POD, TRAIN_JOB
from railhead.kube.watch_state import WatchState

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(railhead_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
Samples = dict[tuple[str, tuple[str, ...]], float]


class Operator:
    """Values that the test sets."""

    def __init__(self) -> None:
        self.jobs = Counter({"Running": 2, "": 1})
        self.due = 0
        self.is_leading = True
        self.requests = Counter({RequestLabels("create", "pods", 201): 3, RequestLabels("watch", "pods", 0): 1})
        self.watches = [WatchState(POD, "a"), WatchState(POD, "b"), WatchState(TRAIN_JOB, None)]
        self.metrics = Metrics(
            Sources(
                lambda: self.jobs,
                lambda: self.due,
                lambda: self.is_leading,
                lambda: self.requests,
                lambda: self.watches,
                avoided_nodes=lambda: 4,
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
