"""The journal's moments in a timeline."""

from __future__ import annotations

from railhead.client.journal import read_moments
from railhead.client.timeline import Moment, build_timeline
from railhead.history import History
from tests.unit.client.jobs import make_job, make_snapshot


def test_records_become_moments_and_what_is_missing_a_gap() -> None:
    records = (
        {"time": "2026-11-25T10:00:00.250Z", "attempt": 1, "event": "group", "workers": 4, "workersBefore": None},
        {"time": "2026-11-25T10:01:00.000Z", "attempt": 1, "event": "lostPods", "pods": ["a", "b"]},
        {"time": "2026-11-25T10:02:00.000Z", "attempt": 1, "event": "of a later version", "reason": "R"},
    )
    assert list(read_moments(History(records, skipped=1))) == [
        Moment("2026-11-25T10:00:00.250Z", "Gap", "1 lines in the journal cannot be read.", "gap"),
        Moment("2026-11-25T10:00:00.250Z", "WorkerGroup", "attempt 1, workers 4", "journal"),
        Moment("2026-11-25T10:01:00.000Z", "LostPods", 'attempt 1, pods ["a", "b"]', "journal"),
        Moment("2026-11-25T10:02:00.000Z", "of a later version", "attempt 1, reason R", "journal"),
    ]


def test_the_moments_are_sorted_among_the_others() -> None:
    journal = [Moment("2026-11-25T10:00:00.001Z", "State", "", "journal")]
    assert [each.what for each in build_timeline(make_snapshot(make_job()), journal)][:2] == ["Created", "State"]
