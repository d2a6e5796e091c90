"""When waiting for a job ends."""

from __future__ import annotations

import pytest

from railhead.client.cluster.waiting import decide
from railhead.client.goals import GOALS, Goal
from railhead.json_object import Object
from tests.unit.client.jobs import make_condition, make_failed, make_job, make_running

DONE = make_job(phase="Succeeded", conditions=[make_condition("Complete", "Succeeded")])
RESTS = make_job(phase="Suspended", conditions=[make_condition("Suspended", "Suspended")])
SAVED = make_running(checkpoint={"uri": "s3://b/c", "index": 4})
REACHED = {
    "finished": [DONE],
    "succeeded": [DONE],
    "failed": [make_failed("Hang", "NoSteps")],
    "running": [make_running(), SAVED],
    "suspended": [RESTS],
    "checkpoint": [SAVED],
}
JOBS = [DONE, RESTS, SAVED, make_running(), make_failed("Hang", "NoSteps"), make_job()]


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job["status"].get("phase", "new"))
def test_waiting_ends_in_the_state_or_when_the_job_has_finished(goal: Goal, job: Object) -> None:
    ending = decide(job, goal)
    is_over = job["status"].get("phase") in ("Succeeded", "Failed")
    if job in REACHED[goal]:
        assert ending is not None
        assert ending.is_reached
    elif is_over:
        assert ending is not None
        assert not ending.is_reached
    else:
        assert ending is None


def test_the_end_of_a_failed_job_has_its_cause() -> None:
    ending = decide(make_failed("Hang", "NoSteps", "rank 3 waits"), "finished")
    assert ending is not None
    assert ending.message == "digits: Failed: Hang, NoSteps: rank 3 waits"
