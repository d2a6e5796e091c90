"""When lost worker pods end the attempt: repeated OOM kills, or too many rounds without a new checkpoint."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.planning.facts.failure_from_pod import classify_pod
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_observed, make_worker

CAN_CHANGE = ", which can change while the job is suspended"
CHECKPOINT = {"uri": "/runs/c7", "index": 7, "time": "2026-01-01T00:00:00Z", "attempt": 1}


def make_killed(round_: int, *, seconds_ago: float = 3600) -> PodView:
    """Worker 1, OOM-killed in this round."""
    finished = NOW - timedelta(seconds=seconds_ago)
    return make_worker(
        1, round_=round_, phase="Failed", is_running=False, exit_code=137, reason="OOMKilled", finished_at=finished
    )


def run(lost: PodView, losses: dict[str, int] | None, **changes: Any) -> Plan:
    status = {**RUNNING_STATUS, "round": lost.round, **changes}
    if losses is not None:
        status["workerLosses"] = losses
    return plan(make_observed(make_head(), make_worker(0), lost, status=status))


def fields_of(wanted: Plan) -> dict[str, Any]:
    assert wanted.status is not None, wanted
    return dict(wanted.status.fields)


def test_the_third_oom_kill_in_a_row_without_a_checkpoint_ends_the_attempt_as_out_of_memory() -> None:
    counts = []
    losses: dict[str, int] | None = None
    for round_ in (0, 1):
        fields = fields_of(run(make_killed(round_), losses))
        assert fields["round"] == round_ + 1 and "failure" not in fields
        losses = fields["workerLosses"]
        counts.append(losses["ownFault"])
    assert counts == [1, 2]
    failure = fields_of(run(make_killed(2), losses))["failure"]
    assert failure["class"] == "OutOfMemory"
    assert failure["message"].endswith(f"{CAN_CHANGE} (3 times in a row without a new checkpoint)")


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (make_killed(0), "spec.scaling.resourcesPerWorker.memory"),
        (make_head(reason="OOMKilled", exit_code=137), "spec.head.resources.memory"),
        (replace(make_killed(0), container="proxy"), "its memory limit in podTemplate"),
    ],
)
def test_an_oom_kill_names_what_to_raise_and_when_that_is_possible(pod: PodView, field: str) -> None:
    assert classify_pod(pod).message.endswith(f"was OOM-killed; raise {field}{CAN_CHANGE}")


@pytest.mark.parametrize(("losses", "delay"), [(None, 10), ({"rounds": 1, "ownFault": 1, "checkpoint": -1}, 20)])
def test_an_oom_killed_pod_is_replaced_with_backoff(losses: dict[str, int] | None, delay: int) -> None:
    wanted = run(make_killed(1, seconds_ago=delay - 1), losses)
    assert (wanted.creates, wanted.wake_at) == ((), NOW + timedelta(seconds=1))
    assert fields_of(run(make_killed(1, seconds_ago=delay), losses))["round"] == 2


@pytest.mark.parametrize(("age", "is_due"), [(5, False), (10, True)])
def test_a_fast_node_clock_delays_a_replacement_only_by_its_backoff(age: int, is_due: bool) -> None:
    """Not until the operator's clock reaches the pod's finish time on the node's clock."""
    lost = replace(make_killed(1, seconds_ago=-3600), created_at=NOW - timedelta(seconds=age))
    wanted = run(lost, None)
    if is_due:
        assert fields_of(wanted)["round"] == 2
    else:
        assert (wanted.creates, wanted.wake_at) == ((), NOW + timedelta(seconds=10 - age))


def test_an_oom_kill_without_a_finish_time_causes_no_delay() -> None:
    lost = replace(make_killed(1), finished_at=None)
    assert fields_of(run(lost, None))["round"] == 2


def test_a_new_checkpoint_resets_the_counts() -> None:
    losses = {"rounds": 20, "ownFault": 2, "checkpoint": 6}
    fields = fields_of(run(make_killed(20), losses, checkpoint=CHECKPOINT))
    assert fields["workerLosses"] == {"rounds": 1, "ownFault": 1, "refused": 0, "checkpoint": 7}
    assert fields["round"] == 21, "a job that makes progress keeps its attempt"


def test_another_loss_between_two_oom_kills_resets_the_count() -> None:
    deleted = make_worker(1, round_=2, is_deleting=True)
    fields = fields_of(run(deleted, {"rounds": 2, "ownFault": 2, "checkpoint": -1}))
    assert fields["workerLosses"] == {"rounds": 3, "ownFault": 0, "refused": 0, "checkpoint": -1}


def test_a_pod_of_an_earlier_round_that_is_still_terminating_does_not_count() -> None:
    """It was OOM-killed and counted; now its successor is deleted."""
    earlier = replace(make_killed(1, seconds_ago=1), is_deleting=True)
    successor = make_worker(1, round_=2, is_deleting=True)
    status = {**RUNNING_STATUS, "round": 2, "workerLosses": {"rounds": 2, "ownFault": 2, "checkpoint": -1}}
    fields = fields_of(plan(make_observed(make_head(), make_worker(0), earlier, successor, status=status)))
    assert (fields["round"], fields["workerLosses"]["ownFault"]) == (3, 0)


def test_more_than_twenty_rounds_without_a_checkpoint_end_the_attempt() -> None:
    deleted = make_worker(1, round_=7, is_deleting=True)
    at_limit = {"rounds": 19, "ownFault": 0, "checkpoint": -1}
    assert fields_of(run(deleted, at_limit))["round"] == 8
    failure = fields_of(run(deleted, {**at_limit, "rounds": 20}))["failure"]
    assert failure["class"] == "Infrastructure"
    assert "worker pods were lost in 21 rounds without a new checkpoint" in failure["message"]
