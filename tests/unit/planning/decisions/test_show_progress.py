"""The number of ready worker pods while an attempt starts: shown for slow starts, in few writes for large gangs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railhead.contract.times import format_time
from railhead.planning.plan import Plan
from railhead.planning.pod_view import Problem
from tests.unit.builders import NOW, make_attempt, make_head, make_spec, make_worker
from tests.unit.planning.state import decide


def pending(since: float, ready: int = 0, *, workers: int) -> dict[str, Any]:
    """The status of an attempt that started that many seconds ago."""
    waiting = {"since": format_time(NOW - timedelta(seconds=since)), "again": False}
    counts = {"desired": workers, "ready": ready}
    status = {"observedGeneration": 1, "phase": "Pending", "attempt": 1, "workers": counts, "waiting": waiting}
    return {**status, "attempts": [make_attempt(runningTime=None)]}


def run(status: dict[str, Any], *, up: int, workers: int) -> Plan:
    pods = [
        make_worker(slot) if slot < up else make_worker(slot, phase="Pending", is_running=False)
        for slot in range(workers)
    ]
    spec = make_spec(scaling={"numWorkers": workers})
    return decide(make_head(), *pods, status=status, spec=spec)


def test_a_quick_start_does_not_write_the_number() -> None:
    wanted = run(pending(14, workers=4), up=3, workers=4)
    assert (wanted.status, wanted.wake_at) == (None, NOW + timedelta(seconds=1))


def test_a_slow_start_shows_the_number() -> None:
    wanted = run(pending(15, workers=4), up=3, workers=4)
    assert wanted.status is not None
    assert wanted.status.fields == {"workers": {"desired": 4, "ready": 3, "joined": 0}}
    assert run(pending(15, ready=3, workers=4), up=3, workers=4).status is None, "once"


def test_a_large_gang_whose_nodes_come_one_by_one_costs_a_few_writes() -> None:
    shown = [0]
    for up in range(128):
        wanted = run(pending(3600, ready=shown[-1], workers=128), up=up, workers=128)
        if wanted.status is not None:
            shown.append(wanted.status.fields["workers"]["ready"])
    assert shown == [0, 64, 96, 112, 120, 124, 126, 127]


def test_pods_that_become_unready_are_shown() -> None:
    assert run(pending(3600, ready=511, workers=512), up=510, workers=512).status is not None
    assert run(pending(3600, ready=256, workers=512), up=250, workers=512).status is None


@pytest.mark.parametrize("queue", ["team-a", ""])
def test_a_job_whose_pods_kueue_holds_one_by_one_says_what_ends_that(queue: str) -> None:
    """Kueue has taken them for its LocalQueue `default`, although it has admitted the job, or the job has no queue."""
    held = Problem("HeldByKueue", "Kueue's integration for pods manages it, in LocalQueue default")
    pod = make_worker(0, phase="Pending", is_running=False, problem=held, created_at=NOW - timedelta(seconds=15))
    admission = {"admission": {"queue": queue, "podSets": []}} if queue else {}
    decided = decide(
        make_head(),
        pod,
        status={**pending(15, workers=1), **admission},
        spec=make_spec(scaling={"numWorkers": 1}, **({"scheduling": {"queueName": queue}} if queue else {})),
    )
    assert decided.status is not None
    [reconciling] = [each for each in decided.status.fields["conditions"] if each["type"] == "Reconciling"]
    why = f"LocalQueue {queue} has admitted the whole job" if queue else "each pod of the job waits for quota by itself"
    assert reconciling["reason"] == "HeldByKueue" and why in reconciling["message"]
    assert "externalFrameworks" in reconciling["message"] and "suspend and resume" in reconciling["message"]


@pytest.mark.parametrize("reason", ["SchedulingGated", "HeldByKueue"])
def test_a_gate_that_a_queue_removes_soon_is_no_news(reason: str) -> None:
    gated = Problem(reason, "the pod has scheduling gates")

    def run(seconds: float) -> Plan:
        created = NOW - timedelta(seconds=seconds)
        pod = make_worker(0, phase="Pending", is_running=False, problem=gated, created_at=created)
        return decide(make_head(), pod, status=pending(seconds, workers=1), spec=make_spec(scaling={"numWorkers": 1}))

    soon, late = run(14), run(15)
    assert (soon.status, soon.events, soon.wake_at) == (None, (), NOW + timedelta(seconds=1))
    assert [event.reason for event in late.events] == [reason]
