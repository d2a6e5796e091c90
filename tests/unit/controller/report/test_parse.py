"""From a report to the status: hostile values never exceed the CRD's limits, honest ones arrive."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api.fit import read_limit
from railhead.api.status import MAX_MESSAGE, JobStatus, OutcomeStatus
from railhead.contract.report import (
    MAX_INDEX,
    MAX_METRIC_NAME,
    MAX_METRIC_VALUE,
    MAX_METRICS,
    MAX_SLOW_RANKS,
    MAX_URI,
    State,
)
from railhead.contract.trackers import MAX_LINK
from railhead.controller.report.schedule import Urgency
from railhead.controller.report.server import parse_report
from railhead.controller.report.writer import find_urgency, status_fields
from tests.unit.controller.report.facts import make_facts, make_report

RUNNING = make_facts().status
KNOWN = {"uri": "/runs/c5", "index": 5, "time": "2026-01-01T00:00:00Z", "metrics": {}, "attempt": 1}
FIRST, SECOND = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEY = st.text(max_size=5)
JSON = LEAF | st.lists(LEAF, max_size=2) | st.dictionaries(KEY, LEAF | st.lists(LEAF, max_size=2), max_size=3)
URI = st.just("/runs") | st.just("x" * (MAX_URI + 1)) | JSON
CHECKPOINT = st.none() | st.fixed_dictionaries(
    {}, optional={"index": st.integers(-(2**70), 2**70) | JSON, "uri": URI, "time": JSON, "metrics": JSON}
)
BEST = st.tuples(CHECKPOINT, st.integers(-1, 2) | JSON).map(lambda two: two[0] and {**two[0], "attempt": two[1]})
REPORT = st.fixed_dictionaries(
    {"namespace": st.just("ns"), "name": st.just("n"), "uid": st.just("u"), "attempt": st.just(1)}
    | {"state": st.sampled_from(get_args(State))},
    optional={
        "reports": st.integers() | st.just(10**400),
        "joined": st.integers(),
        "metrics": st.dictionaries(st.text(max_size=5) | st.just("k" * 500), JSON | st.just("v" * 500), max_size=4),
        "time": st.text(max_size=4) | st.just("t" * 500),
        "run_uri": st.text(max_size=4) | st.just("x" * (MAX_URI + 1)),
        "tracker_url": st.text(max_size=4) | st.just("http://t/" + "x" * MAX_LINK) | st.just("http://t/"),
        "checkpoint": CHECKPOINT,
        "best_checkpoint": BEST,
        "warning": st.none()
        | st.fixed_dictionaries({}, optional={"reason": st.just("A1") | JSON, "message": st.just("m" * 5000) | JSON}),
        "outcome": st.none()
        | st.fixed_dictionaries(
            {"outcome": st.just("Succeeded") | JSON}, optional={"message": st.just("m" * 9999) | JSON}
        ),
        "restart": st.none()
        | st.fixed_dictionaries(
            {"number": st.integers(), "charged": st.integers()},
            optional={"cause": st.just("Hang") | JSON, "reason": st.just("r" * 999), "message": st.just("m" * 5000)},
        ),
        "lost_pods": st.lists(st.text(max_size=4) | st.just("p" * 500), max_size=3) | st.just(["p"] * 500) | JSON,
        "slow_ranks": st.lists(
            st.fixed_dictionaries(
                {"rank": st.integers() | st.just(10**400)},
                optional={
                    "pod": st.just("p" * 999),
                    "score": st.text(max_size=40),
                    "since": st.text(max_size=4) | JSON,
                },
            ),
            max_size=99,
        ),
        "finishing": st.text(max_size=4) | st.just("w" * 999),
        "resumed_from": st.none() | st.fixed_dictionaries({}, optional={"uri": URI}),
        "steps": st.fixed_dictionaries(
            {},
            optional={
                "step": st.none() | st.integers() | JSON,
                "total": st.none() | st.integers(),
                "per_second": st.just("9" * 99) | st.just("\x1b[2J") | JSON,
                "tokens_per_second": st.text(max_size=40),
            },
        ),
    },
)


@given(REPORT)
def test_any_report_results_in_a_valid_status(values: dict[str, Any]) -> None:
    try:
        report = parse_report(json.dumps(values).encode())
    except ValueError as refused:
        assert str(refused).startswith("report.")
        return
    fields = status_fields(report, RUNNING)
    JobStatus.model_validate(fields)  # all lengths and types are those of the CRD
    numbers = [fields["progress"]["reports"], fields["progress"]["joined"]] if "progress" in fields else []
    numbers += [fields[key]["index"] for key in ("checkpoint", "bestCheckpoint") if key in fields]
    assert all(type(number) is int and 0 <= number <= MAX_INDEX for number in numbers)
    assert fields.keys() <= {"progress", "checkpoint", "bestCheckpoint", "runURI", "trackerURL", "resumedFrom"}
    json.dumps(fields, allow_nan=False)


def test_honest_values_arrive_unchanged() -> None:
    reported = {"uri": "/runs/c5", "index": 5, "time": "2026-01-01T00:00:00Z", "metrics": {"loss": "0.5"}}
    report = make_report(
        workers=2, metrics={"loss": "0.4"}, time="2026-01-01T00:00:03Z", checkpoint=reported, run_uri="/runs"
    )
    progress = {"attempt": 1, "state": "RUNNING", "reports": 4, "joined": 2, "workers": 2, "metrics": {"loss": "0.4"}}
    assert status_fields(report, RUNNING) == {
        "progress": {**progress, "updateTime": "2026-01-01T00:00:03Z"},
        "checkpoint": {**reported, "attempt": 1},
        "runURI": "/runs",
    }


INVALID_TIMES = (
    "",
    "t",
    "now",
    "2026-01-01",
    "2026-01-01 00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-01-01T00:00:00",
    "9" * 500,
)


@pytest.mark.parametrize("text", INVALID_TIMES)
def test_an_invalid_time_is_dropped(text: str) -> None:
    """The API server would reject the entire write."""
    reported = {"uri": "/runs/c6", "index": 6, "time": text, "metrics": {}, "attempt": 1}
    fields = status_fields(make_report(time=text, checkpoint=reported, best_checkpoint=reported), RUNNING)
    assert "updateTime" not in fields["progress"]
    assert not [fields[key] for key in ("checkpoint", "bestCheckpoint") if "time" in fields[key]]


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00-08:00"])
def test_other_valid_formats_of_time_are_kept(text: str) -> None:
    assert status_fields(make_report(time=text), RUNNING)["progress"]["updateTime"] == text


@pytest.mark.parametrize("warning", [None, {}, {"reason": "has a space"}, {"reason": "A" * 65}])
def test_an_invalid_warning_is_dropped(warning: Any) -> None:
    assert "warning" not in status_fields(make_report(warning=warning), RUNNING)["progress"]


def test_steps_arrive_and_are_never_urgent() -> None:
    steps = {"step": 7, "total": 100, "per_second": "1.5", "tokens_per_second": "2048"}
    progress = status_fields(make_report(steps=steps), RUNNING)["progress"]
    shown = {"step": 7, "totalSteps": 100, "stepsPerSecond": "1.5", "tokensPerSecond": "2048"}
    assert shown.items() <= progress.items()
    known = make_facts(progress=progress).status
    assert status_fields(make_report(steps=steps), known) == {}
    assert find_urgency(make_report(steps={**steps, "step": 8}), known) is Urgency.PROGRESS


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (125, "2m5s"),
        (750, "12m"),
        (12_000, "3h20m"),
        (187_200, "2d4h"),
        (None, None),
    ],
)
def test_the_estimate_arrives_with_news_and_is_none_itself(seconds: int | None, text: str | None) -> None:
    steps = {"step": 7, "total": 100, "percent": 7, "remaining_seconds": seconds}
    progress = status_fields(make_report(steps=steps), RUNNING)["progress"]
    assert (progress["percentComplete"], progress.get("estimatedRemainingSeconds")) == (7, seconds)
    assert progress.get("remaining") == text
    known = make_facts(progress=progress).status
    assert status_fields(make_report(steps={**steps, "remaining_seconds": 3}), known) == {}
    assert find_urgency(make_report(steps={**steps, "step": 8, "percent": 8}), known) is Urgency.PROGRESS


def test_slow_ranks_arrive_with_their_nodes_and_a_score_alone_is_no_news() -> None:
    slow = {"rank": 3, "pod": "w3", "score": "0.68", "since": "2026-01-01T00:00:00Z"}
    progress = status_fields(make_report(slow_ranks=[slow]), RUNNING, nodes={"w3": "n1", "w4": "n2"})["progress"]
    assert progress["slowRanks"] == [{**slow, "node": "n1"}]
    known = make_facts(progress=progress).status
    lower, nodes = {**slow, "score": "0.6"}, {"w3": "n1"}
    assert status_fields(make_report(slow_ranks=[lower]), known, nodes=nodes) == {}
    stepped = make_report(slow_ranks=[lower], reports=5)
    assert find_urgency(stepped, known, nodes=nodes) is Urgency.PROGRESS
    assert status_fields(stepped, known, nodes=nodes)["progress"]["slowRanks"][0]["score"] == "0.6"
    again = {**slow, "since": "2026-01-01T00:20:00Z"}
    for other in ([], [again], [slow, {**slow, "rank": 4}]):
        assert find_urgency(make_report(slow_ranks=other), known, nodes=nodes) is Urgency.STATE
    many = status_fields(make_report(slow_ranks=[{**slow, "rank": rank} for rank in range(99)]), RUNNING)
    assert [each["rank"] for each in many["progress"]["slowRanks"]] == list(range(MAX_SLOW_RANKS))


def test_what_the_run_waits_for_at_its_end_is_told_at_once_and_goes_again() -> None:
    waits = make_report(finishing="Ray Train waits.")
    progress = status_fields(waits, RUNNING)["progress"]
    assert progress["finishing"] == "Ray Train waits."
    assert find_urgency(waits, RUNNING) is Urgency.STATE
    known = make_facts(progress=progress).status
    assert "finishing" not in status_fields(make_report(), known)["progress"]


@pytest.mark.parametrize(("sent", "shown"), [(-1, 0), (101, 100), (2**40, 100)])
def test_an_estimate_out_of_bounds_is_cut(sent: int, shown: int) -> None:
    progress = status_fields(make_report(steps={"percent": sent, "remaining_seconds": sent}), RUNNING)["progress"]
    assert progress["percentComplete"] == shown
    assert progress["estimatedRemainingSeconds"] == min(max(sent, 0), MAX_INDEX)


def test_a_warning_arrives_and_is_written_once() -> None:
    report = make_report(warning={"reason": "RunNameDiffers", "message": "m" * 5000, "more": 1})
    fields = status_fields(report, RUNNING)
    assert fields["progress"]["warning"] == {"reason": "RunNameDiffers", "message": "m" * MAX_MESSAGE}
    assert status_fields(report, make_facts(**fields).status) == {}


def test_the_last_report_has_the_outcome_within_the_limits() -> None:
    long = {"reason": "R" * 999, "message": "m" * 9999, "suspect_pod": "p" * 999, "process_exit_code": 10**9}
    report = make_report(outcome={"outcome": "Application", **long, "more": 1})
    room = read_limit(OutcomeStatus, "message")
    short = {"reason": "R" * 128, "message": "m" * room, "suspectPod": "p" * 253}
    outcome = {"outcome": "Application", **short}
    assert status_fields(report, RUNNING)["progress"]["outcome"] == outcome


def test_only_changed_fields_are_written() -> None:
    status = make_facts(runURI="/runs", checkpoint=KNOWN, resumedFrom={"uri": "/runs/c1"}).status
    report = make_report(checkpoint=KNOWN, run_uri="/runs", resumed_from={"uri": "/runs/c1"})
    assert status_fields(report, status).keys() == {"progress"}


def test_a_report_without_news_writes_nothing() -> None:
    reported = status_fields(make_report(time=FIRST), RUNNING)["progress"]
    status = make_facts(progress=reported).status
    assert status_fields(make_report(time=SECOND), status) == {}
    assert status_fields(make_report(time=SECOND, reports=5), status)["progress"]["updateTime"] == SECOND


@pytest.mark.parametrize("index", [True, False, 1.0, "6", None, [6]])
def test_a_report_whose_checkpoint_has_no_index_is_rejected_with_the_field(index: Any) -> None:
    with pytest.raises(ValueError, match=r"report\.checkpoint\.index"):
        make_report(checkpoint={"uri": "/runs/c", "index": index})


@pytest.mark.parametrize("index", [-1, 2**31, 10**100])
def test_a_checkpoint_with_an_index_out_of_bounds_is_ignored(index: int) -> None:
    assert "checkpoint" not in status_fields(make_report(checkpoint={"uri": "/runs/c", "index": index}), RUNNING)


@pytest.mark.parametrize(("index", "is_taken"), [(4, False), (5, False), (6, True), (MAX_INDEX, True)])
def test_the_checkpoint_index_never_decreases(index: int, is_taken: bool) -> None:
    status = make_facts(checkpoint=KNOWN).status
    fields = status_fields(make_report(checkpoint={"uri": "/runs/c", "index": index}), status)
    assert ("checkpoint" in fields) == is_taken


def test_the_best_checkpoint_may_be_of_an_earlier_attempt() -> None:
    status = make_facts(checkpoint=KNOWN, attempt=2).status
    best = {**KNOWN, "uri": "/runs/c3", "index": 3, "metrics": {"loss": "0.1"}}
    fields = status_fields(make_report(attempt=2, best_checkpoint=best), status)
    assert fields["bestCheckpoint"] == best
    assert "bestCheckpoint" not in status_fields(make_report(attempt=2, best_checkpoint={**best, "attempt": 3}), status)


@pytest.mark.parametrize(
    ("reported", "becomes"),
    [
        (None, "unchanged"),
        ({}, None),
        (KNOWN, "unchanged"),
        ({**KNOWN, "metrics": {"loss": "2"}}, {**KNOWN, "metrics": {"loss": "2"}}),
        ({**KNOWN, "index": 4, "uri": "/runs/c4"}, {**KNOWN, "index": 4, "uri": "/runs/c4", "metrics": {}}),
    ],
)
def test_the_best_checkpoint_follows_the_driver(reported: Any, becomes: Any) -> None:
    known = {**KNOWN, "metrics": {"loss": "1"}}
    reported = known if reported is KNOWN else reported
    fields = status_fields(make_report(best_checkpoint=reported), make_facts(bestCheckpoint=known).status)
    assert fields.get("bestCheckpoint", "unchanged") == becomes


def test_a_termination_message_without_metrics_removes_none() -> None:
    known = {**KNOWN, "metrics": {"loss": "1"}}
    fields = status_fields(make_report(best_checkpoint=KNOWN), make_facts(bestCheckpoint=known).status)
    assert "bestCheckpoint" not in fields


@pytest.mark.parametrize("uri", ["", "x" * (MAX_URI + 1)])
def test_a_uri_that_is_too_long_is_dropped_and_never_cut(uri: Any) -> None:
    report = make_report(run_uri=uri, resumed_from={"uri": uri}, checkpoint={"uri": uri, "index": 6})
    assert status_fields(report, RUNNING).keys() == {"progress"}


@pytest.mark.parametrize(
    "url", ["", "javascript:alert(1)", "https://user:password@t/", "https://t/\x1b[2J", f"https://t/{'x' * MAX_LINK}"]
)
def test_only_an_address_of_a_page_becomes_the_link(url: str) -> None:
    assert status_fields(make_report(tracker_url=url), RUNNING).keys() == {"progress"}
    known = make_facts(trackerURL="https://t/runs/1").status
    assert "trackerURL" not in status_fields(make_report(tracker_url=url), known), "the link stays"
    fields = status_fields(make_report(tracker_url="https://t/runs/2"), known)
    assert fields["trackerURL"] == "https://t/runs/2"


def test_a_uri_of_the_maximum_length_is_kept() -> None:
    uri = "x" * MAX_URI
    fields = status_fields(make_report(run_uri=uri, checkpoint={"uri": uri, "index": 6}), RUNNING)
    assert fields["runURI"] == fields["checkpoint"]["uri"] == uri


def test_metrics_are_truncated() -> None:
    metrics = {f"{number:03}{'k' * 500}": "v" * 500 for number in range(200)}
    progress = status_fields(make_report(metrics=metrics, time=FIRST), RUNNING)["progress"]
    assert len(progress["metrics"]) == MAX_METRICS
    assert {(len(key), len(value)) for key, value in progress["metrics"].items()} == {
        (MAX_METRIC_NAME, MAX_METRIC_VALUE)
    }


@pytest.mark.parametrize(("reported", "kept"), [(-5, 0), (10**100, MAX_INDEX), (7, 7)])
def test_counts_are_clamped_to_their_bounds(reported: int, kept: int) -> None:
    progress = status_fields(make_report(reports=reported, joined=reported), RUNNING)["progress"]
    assert (progress["reports"], progress["joined"]) == (kept, kept)
