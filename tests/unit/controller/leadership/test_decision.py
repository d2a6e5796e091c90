"""What a candidate does about the Lease: a table, without comparing the clocks of two machines."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.controller.leadership import Candidate, Sighting, Timing, may_take, read_lease

ME, OTHER = "a_u_1", "b_2"
CANDIDATE = Candidate(ME, predecessors="a_u_")
TIMING = Timing(15)


def make_lease(holder: str | None = OTHER, *, version: str = "7", seconds: int = 15) -> dict[str, Any]:
    # By its times it expired years ago: they must not count.
    spec = {"renewTime": "2020-01-01T00:00:00.000000Z", "leaseDurationSeconds": seconds, "leaseTransitions": 3}
    return {"metadata": {"resourceVersion": version}, "spec": spec | ({"holderIdentity": holder} if holder else {})}


@pytest.mark.parametrize(
    ("seen", "now", "may"),
    [
        (None, 100.0, True),
        (Sighting("", 15, "7", since=100.0), 100.0, True),
        (Sighting(ME, 15, "7", since=100.0), 100.0, True),
        (Sighting("a_u_0", 15, "7", since=100.0), 100.0, True),
        (Sighting("a_v_0", 15, "7", since=100.0), 100.0, False),
        (Sighting(OTHER, 15, "7", since=100.0), 100.0, False),
        (Sighting(OTHER, 15, "7", since=100.0), 115.0, False),
        (Sighting(OTHER, 15, "7", since=100.0), 115.1, True),
        (Sighting(OTHER, 60, "7", since=100.0), 130.0, False),
        (Sighting(OTHER, 0, "7", since=100.0), 101.0, False),
    ],
)
def test_a_candidate_takes_only_a_free_an_expired_or_a_dead_predecessors_lease(
    seen: Sighting | None, now: float, may: bool
) -> None:
    assert may_take(CANDIDATE, seen, now=now, timing=TIMING) is may


def test_the_lease_duration_counts_from_when_a_version_is_first_seen() -> None:
    first = read_lease(make_lease(), None, now=100.0)
    assert first == Sighting(OTHER, 15, "7", since=100.0, transitions=3)
    assert read_lease(make_lease(), first, now=110.0).since == 100.0
    assert read_lease(make_lease(version="8"), first, now=110.0).since == 110.0


def test_without_known_predecessors_no_holder_counts_as_dead() -> None:
    seen = read_lease(make_lease("a_u_0"), None, now=100.0)
    assert not may_take(Candidate(ME), seen, now=100.0, timing=TIMING)


def test_a_lease_without_a_holder_is_free() -> None:
    seen = read_lease(make_lease(None), None, now=100.0)
    assert may_take(CANDIDATE, seen, now=100.0, timing=TIMING)


@pytest.mark.parametrize("seconds", [3, 15, 60])
def test_a_leader_stops_before_another_may_take_the_lease(seconds: int) -> None:
    timing = Timing(seconds)
    assert timing.lead_seconds + timing.period_seconds < seconds
    assert timing.period_seconds * 3 < timing.lead_seconds  # more than one renewal may fail
