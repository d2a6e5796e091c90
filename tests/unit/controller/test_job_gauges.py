"""The gauges over all jobs, by namespace."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from railhead.api.status import parse_status
from railhead.contract.times import format_time
from railhead.controller.job_gauges import JobGauges, Signs, read_signs
from railhead.controller.store import Store
from tests.unit.controller.raws import make_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NO_SIGNS = Signs()
MOST_SECONDS = 2.0  # of processor time; measured: 70 ms


def ago(seconds: int) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


RESTING = {"type": "Suspended", "status": "True", "reason": "R", "lastTransitionTime": ago(70)}


def running(seconds: int, *warnings: str) -> dict[str, Any]:
    true = {"status": "True", "reason": "R", "lastTransitionTime": ago(seconds)}
    return {"phase": "Running", "conditions": [{**true, "type": type_} for type_ in ("Running", *warnings)]}


def put(store: Store, namespace: str, number: int, status: dict[str, Any]) -> None:
    metadata = {"namespace": namespace}
    store.put_job(make_job(name=f"j{number}", uid=f"{namespace}-{number}", metadata=metadata, status=status))


def read(store: Store, *, now: datetime = NOW) -> dict[tuple[str, ...], float]:
    families = JobGauges([*store.all_records()], now).collect()
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_jobs_are_counted_and_the_oldest_is_measured_by_namespace() -> None:
    store = Store()
    states = [
        ("a", {"phase": "Pending", "waiting": {"since": ago(20)}}),
        ("a", {"phase": "Restarting", "waiting": {"since": ago(30)}}),
        ("a", running(40, "HangSuspected")),
        ("a", running(50, "HangSuspected", "StorageUnavailable")),
        ("b", {}),
        ("b", running(-60)),
        ("c", {"phase": "Suspended", "conditions": [RESTING]}),
        ("c", {"phase": "Queued", "conditions": [RESTING]}),
    ]
    for number, (namespace, status) in enumerate(states):
        put(store, namespace, number, status)
    assert read(store) == {
        ("railhead_jobs", "a", "Pending"): 1,
        ("railhead_jobs", "a", "Restarting"): 1,
        ("railhead_jobs", "a", "Running"): 2,
        ("railhead_jobs", "b", "Pending"): 1,
        ("railhead_jobs", "b", "Running"): 1,
        ("railhead_jobs", "c", "Suspended"): 1,
        ("railhead_jobs", "c", "Queued"): 1,
        ("railhead_oldest_queued_seconds", "c"): 70,
        ("railhead_job_conditions", "a", "HangSuspected"): 2,
        ("railhead_job_conditions", "a", "StorageUnavailable"): 1,
        ("railhead_oldest_pending_seconds", "a"): 30,
        ("railhead_oldest_progress_seconds", "a"): 50,
        ("railhead_oldest_progress_seconds", "b"): 0,  # its node's clock is ahead
    }


def test_the_series_do_not_grow_with_the_number_of_jobs_and_a_scrape_of_10000_is_short() -> None:
    store = Store()
    put(store, "a", 0, running(10, "HangSuspected"))
    few = read(store).keys()
    for number in range(1, 10_000):
        put(store, "a", number, running(number % 600, "HangSuspected"))
    began = time.process_time()
    found = read(store)
    seconds = time.process_time() - began
    assert found.keys() == few
    assert found["railhead_oldest_progress_seconds", "a"] == 599
    assert seconds < MOST_SECONDS, f"{seconds:.3f} s"
    print(f"10,000 jobs: {1000 * seconds:.1f} ms")


def stamp(minutes: int) -> str:
    return format_time(NOW + timedelta(minutes=minutes))


def true(type_: str, minutes: int = 1) -> dict[str, str]:
    return {"type": type_, "status": "True", "reason": "R", "lastTransitionTime": stamp(minutes)}


RELEASED = [
    {"number": 1, "startTime": stamp(1), "class": "Infrastructure", "reason": "NodeFailed"},
    {"number": 2, "startTime": stamp(3), "class": "Startup", "reason": "QuotaExceeded"},
]
BEGUN = {"number": 3, "startTime": stamp(5)}


@pytest.mark.parametrize(
    ("status", "signs"),
    [
        ({}, NO_SIGNS),
        ({"phase": "Pending", "waiting": {"since": stamp(5)}}, Signs(pending_since=stamp(5))),
        (
            {"phase": "Restarting", "attempt": 3, "waiting": {"since": stamp(5)}, "attempts": [*RELEASED, BEGUN]},
            Signs(pending_since=stamp(3)),
        ),
        (
            {"phase": "Pending", "attempt": 3, "waiting": {"since": stamp(5)}, "attempts": [BEGUN]},
            Signs(pending_since=stamp(5)),
        ),
        ({"phase": "Starting", "waiting": {"since": stamp(5)}}, NO_SIGNS),
        ({"phase": "Suspended"}, NO_SIGNS),
        ({"phase": "Running", "conditions": [true("Running", 2)]}, Signs(progressed_at=stamp(2))),
        (
            {
                "phase": "Running",
                "attempt": 2,
                "conditions": [true("Running", 2)],
                "progress": {"attempt": 2, "updateTime": stamp(9)},
                "checkpoint": {"time": stamp(8)},
            },
            Signs(progressed_at=stamp(9)),
        ),
        (
            {
                "phase": "Running",
                "attempt": 3,
                "conditions": [true("Running", 2)],
                "progress": {"attempt": 2, "updateTime": stamp(9)},
                "checkpoint": {"time": stamp(8)},
            },
            Signs(progressed_at=stamp(8)),
        ),
        (
            {"phase": "Starting", "conditions": [true("StorageUnavailable"), true("CheckpointFallback")]},
            Signs(warnings=("StorageUnavailable",)),
        ),
    ],
)
def test_the_signs_of_a_job_are_its_wait_its_progress_and_its_warnings(status: dict[str, Any], signs: Signs) -> None:
    assert read_signs(parse_status(status)) == signs
