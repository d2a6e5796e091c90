"""What a job's time was spent on: the sum is closed, whatever a driver reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api.goodput import MOST, MOST_INTERRUPTIONS, GoodputStatus, LostSeconds, SpentStatus
from railhead.api.status import JobStatus, ProgressStatus, parse_status
from railhead.contract.spent import Spent
from railhead.contract.times import format_time
from railhead.json_object import Object
from railhead.planning.facts.goodput_account import MEASURED, choose_time_cause, count_kept, count_seconds, settle_time
from tests.unit.builders import NOW, RUNNING_STATUS

HEAD = RUNNING_STATUS["head"]
FAILED = {"class": "Infrastructure", "attempt": 1, "time": format_time(NOW)}


def at(phase: str = "Running", *, spent: dict[str, int] | None = None, second: int = 0, **fields: Any) -> JobStatus:
    """`second`: when the driver reported, after NOW."""
    time = format_time(NOW + timedelta(seconds=second))
    progress = {"attempt": 1, "state": "RUNNING", "updateTime": time, **({"spent": spent} if spent else {})}
    return parse_status({"phase": phase, "attempt": 1, "head": HEAD, "progress": progress, **fields})


def settle(old: JobStatus, new: JobStatus, *, second: int, gpus: int = 0) -> JobStatus:
    goodput = settle_time(old, new, now=NOW + timedelta(seconds=second), gpus=gpus)
    assert goodput.productive_seconds + sum(dict(goodput.lost_seconds).values()) == goodput.wall_seconds
    return new.model_copy(update={"goodput": goodput})


def begin() -> JobStatus:
    return settle(JobStatus(), at("Pending", head={}), second=0)


def lost(status: JobStatus) -> dict[str, int]:
    assert status.goodput is not None
    return {cause: seconds for cause, seconds in status.goodput.lost_seconds if seconds}


REFUSED = {"type": "Reconciling", "status": "True", "reason": "QuotaExceeded", "message": "no room"}


@pytest.mark.parametrize(
    ("phase", "fields", "cause"),
    [
        ("Pending", {"head": {}}, "pods_pending"),
        ("Pending", {"head": {}, "conditions": [REFUSED]}, "queued"),
        ("Restarting", {"failure": {**FAILED, "reason": "QuotaExceeded"}}, "queued"),
        ("Restarting", {"failure": {**FAILED, "reason": "PartialStartDeadlineExceeded"}}, "queued"),
        ("Restarting", {"head": {}}, "pods_pending"),
        ("Restarting", {}, "restoring"),
        ("Restarting", {"failure": FAILED, "head": {}}, "restoring"),
        ("Starting", {}, "starting"),
        ("Running", {"conditions": [REFUSED]}, "other"),
        ("Suspending", {}, "draining"),
        ("Suspended", {"conditions": [REFUSED]}, "suspended"),
        ("", {}, "other"),
    ],
)
def test_the_state_of_the_job_names_the_cause_of_time_that_no_driver_counts(
    phase: str, fields: dict[str, Any], cause: str
) -> None:
    assert choose_time_cause(at(phase, **fields)) == cause


def test_the_drivers_time_counts_until_its_report_and_the_rest_later() -> None:
    known = settle(begin(), at("Starting"), second=10)
    running = settle(known, at(goodput=known.goodput), second=15)
    assert lost(running) == {"pods_pending": 10, "starting": 5}
    told = at(spent={"starting": 3000, "productive": 40_000}, second=58, goodput=running.goodput)
    after = settle(told, told, second=100, gpus=8)
    assert after.goodput is not None and after.goodput.time == format_time(NOW + timedelta(seconds=58))
    assert after.goodput.productive_seconds == 40 and after.goodput.percent == "69.0"
    assert (after.goodput.gpu_seconds, after.goodput.lost_gpu_seconds) == (43 * 8, 3 * 8)


def test_what_is_settled_of_an_attempt_whose_end_nobody_counted_takes_nothing_from_the_next_one() -> None:
    """Another version of the operator, which does not count, led meanwhile and left status.goodput as it was."""
    first = at(spent={"productive": 5_000_000}, second=5000, goodput=GoodputStatus(time=format_time(NOW)))
    known = settle(first, first, second=5000).goodput
    assert known is not None and known.productive_seconds == 5000
    told = at(spent={"productive": 5_000_000}, second=10_000, goodput=known, attempt=2)
    told = told.model_copy(update={"progress": told.progress.model_copy(update={"attempt": 2})})
    after = settle(told, told, second=10_000).goodput
    assert after is not None and after.productive_seconds == 10_000


@pytest.mark.parametrize(
    ("phase", "before", "after", "counted"),
    [
        ("Pending", None, {"refused": 1}, 0),
        ("Pending", {"refused": 1}, {"refused": 2}, 0),
        ("Pending", {"refused": 1}, {"refused": 1, "rounds": 1}, 1),
        ("Pending", {"rounds": 5}, {"rounds": 1, "checkpoint": 3}, 1),
        ("Running", {"refused": 1}, {"refused": 2}, 1),  # a kubelet refused a pod that ran
    ],
)
def test_pods_that_their_nodes_never_started_interrupt_nothing(
    phase: str, before: dict[str, int] | None, after: dict[str, int], counted: int
) -> None:
    running = {"type": "Running", "status": "True", "reason": "Training", "lastTransitionTime": format_time(NOW)}
    known = GoodputStatus(time=format_time(NOW))
    old = at(phase, workerLosses=before, goodput=known, conditions=[running] if phase == "Running" else [])
    new = at("Restarting", workerLosses=after, round=1, second=5)
    found = settle(old, new, second=5).goodput
    assert found is not None and sum(found.interruptions.values()) == counted


def test_the_end_of_an_attempt_that_never_reported_is_told_by_its_termination_message() -> None:
    """The status still has the last report of the attempt before."""
    outcome = {"outcome": "Infrastructure", "reason": "x", "message": ""}
    before = {"attempt": 1, "state": "ERRORED", "outcome": outcome}
    old = at(goodput=GoodputStatus(time=format_time(NOW))).model_copy(update={"attempt": 2})
    old = old.model_copy(update={"progress": ProgressStatus.model_validate(before)})
    last = SpentStatus.model_validate({"starting": 4000, "productive": 6000})
    new = old.model_copy(update={"phase": "Succeeded"})
    found = settle_time(old, new, now=NOW + timedelta(seconds=10), gpus=0, last=last)
    assert (found.productive_seconds, found.lost_seconds.starting) == (6, 4)


def test_a_lost_attempt_takes_back_what_no_checkpoint_keeps() -> None:
    told = at(
        spent={"productive": 60_000, "uncommitted": 25_000}, second=60, goodput=GoodputStatus(time=format_time(NOW))
    )
    known = settle(told, told, second=60)
    failed = at("Restarting", failure=FAILED, spent={"productive": 60_000, "uncommitted": 25_000}, second=60)
    after = settle(known, failed, second=70)
    assert after.goodput is not None and after.goodput.productive_seconds == 35
    assert lost(after) == {"retrained": 25, "other": 10}
    assert after.goodput.interruptions == {"Infrastructure": 1} and after.goodput.settled is None
    assert count_kept(known.goodput) == count_kept(after.goodput) == 35
    assert count_seconds(known.goodput, after.goodput) == {"retrained": 25, "other": 10}


@pytest.mark.parametrize(("outcome", "cause"), [("Preemption", "draining"), ("Application", "other")])
def test_a_head_that_ends_for_a_notice_drains(outcome: str, cause: str) -> None:
    """Until its pod is gone; training until the last checkpoint stays productive."""
    progress = {"attempt": 1, "state": "ERRORED", "updateTime": format_time(NOW + timedelta(seconds=60))}
    progress |= {"spent": {"productive": 60_000}, "outcome": {"outcome": outcome, "reason": "Terminated"}}
    old = at(progress=progress, goodput=GoodputStatus(time=format_time(NOW)))
    after = settle(old, at("Restarting", failure=FAILED), second=72)
    assert after.goodput is not None and after.goodput.productive_seconds == 60 and lost(after) == {cause: 12}
    assert choose_time_cause(old.model_copy(update={"attempt": 2})) == "other", "the outcome is of the attempt before"


def test_success_keeps_all_training() -> None:
    told = at(
        spent={"productive": 60_000, "uncommitted": 25_000}, second=60, goodput=GoodputStatus(time=format_time(NOW))
    )
    after = settle(told, at("Succeeded"), second=61)
    assert after.goodput is not None and after.goodput.productive_seconds == 60 and lost(after) == {"other": 1}


def test_a_restart_in_place_moves_settled_time() -> None:
    before = {"productive": 60_000, "uncommitted": 30_000}
    told = at(spent=before, second=60, goodput=GoodputStatus(time=format_time(NOW)))
    known = settle(told, told, second=60)
    told = at(spent={"productive": 30_000, "retrained": 30_000, "restoring": 5000}, second=65, goodput=known.goodput)
    after = settle(told, told, second=70)
    assert lost(after) == {"retrained": 30, "restoring": 5}


@pytest.mark.parametrize(
    ("spent", "seconds", "productive", "causes"),
    [
        ({"productive": 2600, "checkpointing": 1400}, 4, 3, {"checkpointing": 1}),
        ({"productive": 2400, "checkpointing": 1600}, 4, 3, {"checkpointing": 1}),
        ({"productive": 2600, "uncommitted": 2600, "checkpointing": 1600}, 5, 3, {"checkpointing": 1, "other": 1}),
        ({"productive": MOST, "starting": 5000}, 7, 7, {}),
        ({"productive": 4000, "retrained": MOST, "hanging": MOST}, 7, 4, {"retrained": 3}),
    ],
)
def test_a_cause_gets_whole_seconds_and_a_report_cannot_exceed_the_time(
    spent: dict[str, int], seconds: int, productive: int, causes: dict[str, int]
) -> None:
    told = at(spent=spent, second=seconds, goodput=GoodputStatus(time=format_time(NOW)))
    after = settle(told, told, second=seconds)
    assert after.goodput is not None and (after.goodput.productive_seconds, lost(after)) == (productive, causes)


def test_what_a_first_report_claims_of_time_that_was_settled_before_it_is_not_waited_for() -> None:
    """The endpoint was away for the driver's first 20 seconds, and the job's state has settled them."""
    known = settle(at("Starting", goodput=GoodputStatus(time=format_time(NOW))), at("Starting"), second=20)
    for second in (25, 45):
        training = {"productive": (second - 22) * 1000}
        told = at(spent={"starting": 22_000, **training}, second=second, goodput=known.goodput)
        known = settle(told, told, second=second)
    assert known.goodput is not None and (known.goodput.productive_seconds, lost(known)) == (23, {"starting": 22})


@given(st.lists(st.integers(0, 40), min_size=60, max_size=60), st.integers(100, 900))
def test_fractions_of_seconds_add_up_over_many_settlements(pauses: list[int], blocked: int) -> None:
    """The driver counts `blocked` milliseconds of each 7 s as checkpointing, the rest as productive."""
    status, second = begin(), 0
    for pause in pauses:
        second += pause
        checkpointing = second // 7 * blocked
        spent = {"productive": second * 1000 - checkpointing, "checkpointing": checkpointing}
        told = at(spent=spent, second=second, goodput=status.goodput)
        status = settle(told, told, second=second)
    assert status.goodput is not None
    assert abs(status.goodput.lost_seconds.checkpointing - checkpointing / 1000) <= 1
    assert status.goodput.lost_seconds.other == 0


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 900), st.booleans()), min_size=20, max_size=40))
def test_the_counters_add_up_to_what_is_kept(settlements: list[tuple[int, int, bool]]) -> None:
    """`blocked` milliseconds of the time so far were not productive, and some settlements follow a checkpoint."""
    status, second, committed, counted = begin(), 0, 0, 0
    for pause, blocked, is_committed in settlements:
        second += pause
        productive = second * 1000 - blocked
        committed = productive if is_committed else min(committed, productive)
        told = at(
            spent={"productive": productive, "uncommitted": productive - committed},
            second=second,
            goodput=status.goodput,
        )
        known, status = status, settle(told, told, second=second)
        counted += count_seconds(known.goodput, status.goodput).get("productive", 0)
    assert counted == count_kept(status.goodput)


def test_a_report_that_was_settled_as_training_becomes_checkpointing() -> None:
    begun = GoodputStatus(time=format_time(NOW))
    told = at(spent={"productive": 60_000, "uncommitted": 60_000}, second=60, goodput=begun)
    known = settle(told, told, second=60)
    spent = {"productive": 52_600, "checkpointing": 9400, "uncommitted": 52_600}
    told = at(spent=spent, second=62, goodput=known.goodput)
    after = settle(told, told, second=62)
    assert after.goodput is not None and (after.goodput.productive_seconds, lost(after)) == (53, {"checkpointing": 9})


SPENT = st.dictionaries(
    st.sampled_from(list(SpentStatus.model_fields)), st.integers(0, 2**53 - 1) | st.integers(0, 90_000)
)
STEP = st.tuples(
    st.sampled_from(["Pending", "Starting", "Running", "Restarting", "Suspending", "Suspended"]),
    SPENT,
    st.integers(-50, 300),
    st.integers(-10, 200),
    st.booleans(),
)


@given(st.lists(STEP, max_size=12))
def test_the_sum_is_closed_for_any_reports(steps: list[tuple[str, dict[str, int], int, int, bool]]) -> None:
    status, second, kept = begin(), 0, 0
    for phase, spent, told, passed, fails in steps:
        second += passed
        failure: dict[str, Any] = {"failure": FAILED} if fails else {}
        new = at(phase, spent=spent, second=told, goodput=status.goodput, **failure)
        status = settle(new, new if not fails else at("Restarting", **failure), second=second, gpus=4)
        goodput = status.goodput
        assert goodput is not None and min(dict(goodput.lost_seconds).values()) >= 0 <= goodput.productive_seconds
        assert 0 <= goodput.lost_gpu_seconds <= goodput.gpu_seconds
        assert count_kept(goodput) >= kept, "a counter never decreases"
        kept = count_kept(goodput)


TRUTH = st.lists(
    st.tuples(
        st.sampled_from(["train", "block", "commit", "hang", "lose", "restore"]),
        st.integers(0, 4000),
        st.booleans(),  # the report of it arrives, and is settled
    ),
    min_size=1,
    max_size=60,
)


@given(TRUTH, st.integers(0, 999))
def test_lost_reports_and_fractions_of_seconds_change_no_cause_by_a_second(
    events: list[tuple[str, int, bool]], starting: int
) -> None:
    """A driver measures in milliseconds, and any of its reports may be the only one that arrives."""
    counts = Counter[str]({"starting": starting})
    status = settle(at("Starting", goodput=GoodputStatus(time=format_time(NOW))), at("Starting"), second=0)
    for event, milliseconds, arrives in [*events, ("train", 0, True)]:
        training = {"train": milliseconds, "block": milliseconds}.get(event, 0)
        counts["productive"] += training
        counts["uncommitted"] += training
        counts["restoring"] += milliseconds * (event == "restore")
        decided = {"block": milliseconds, "hang": milliseconds, "lose": MOST, "commit": MOST}.get(event, 0)
        decided = min(decided, counts["uncommitted"])
        counts["uncommitted"] -= decided
        cause = {"block": "checkpointing", "hang": "hanging", "lose": "retrained"}.get(event)
        if cause:
            counts["productive"] -= decided
            counts[cause] += decided
        passed = counts.total() - counts["uncommitted"]
        if arrives:
            time = (NOW + timedelta(milliseconds=passed)).isoformat()
            told = at(goodput=status.goodput)
            progress = told.progress.model_copy(update={"spent": SpentStatus(**counts), "update_time": time})
            told = told.model_copy(update={"progress": progress})
            status = settle(told, told, second=passed // 1000 + 1)
    assert status.goodput is not None and status.goodput.wall_seconds == passed // 1000
    measured = {cause: counts[cause] for cause in ("starting", "restoring", "checkpointing", "retrained", "hanging")}
    assert lost(status) == {cause: number // 1000 for cause, number in measured.items() if number >= 1000}
    assert count_kept(status.goodput) == (counts["productive"] - counts["uncommitted"]) // 1000


def test_no_number_of_the_driver_is_missing_from_the_account() -> None:
    numbers = {"productive", "uncommitted", *MEASURED}
    assert numbers == SpentStatus.model_fields.keys() == {each.name for each in fields(Spent)}


def test_no_cause_is_missing_from_the_sum() -> None:
    assert set(LostSeconds.model_fields) == {
        *("queued", "pods_pending", "starting", "restoring", "checkpointing"),
        *("retrained", "hanging", "draining", "suspended", "other"),
    }


STORED = st.fixed_dictionaries(
    {"time": st.just(format_time(NOW))},
    optional={name: st.sampled_from((0, 1, 2**31, MOST, MOST + 1)) for name in ("wallSeconds", "productiveSeconds")}
    | {"lostSeconds": st.fixed_dictionaries({"other": st.sampled_from((0, MOST))})}
    | {"interruptions": st.just({"Infrastructure": MOST_INTERRUPTIONS})}
    | {"settled": st.fixed_dictionaries({"productive": st.sampled_from((0, MOST, 10**300))})},
)


@given(STORED, st.sampled_from((0, MOST, MOST + 1)), st.integers(0, 10**6))
def test_any_stored_numbers_are_counted_on_within_the_bounds(goodput: Object, spent: int, second: int) -> None:
    """A user with the right to write the status may store anything; a number that the API server refuses, or an error,
    would stop the job."""
    old = at(spent={"productive": spent, "uncommitted": spent}, second=second, goodput=goodput)
    new = at("Restarting", failure=FAILED)
    for after in (at(second=second), new):
        found = settle_time(old, after, now=NOW + timedelta(seconds=second), gpus=2**31)
        assert GoodputStatus.model_validate(found.model_dump()) == found
        assert found.percent in ("", *(f"{each / 10:.1f}" for each in range(1001)))
