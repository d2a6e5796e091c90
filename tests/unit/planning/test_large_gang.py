"""A pass over a job with 4,096 worker pods, counted in function calls: each pod is looked at a few times, in loops.

A pass that replaces all of them may cost more: it is followed by 4,096 requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_observed, make_spec, make_worker
from tests.unit.controller.test_costs import count_calls

PODS = 4096
STARTING = {**RUNNING_STATUS, "phase": "Pending", "workers": {"desired": PODS, "ready": 0}}


def runs(pod: PodView) -> PodView:
    return pod


def is_pending(pod: PodView) -> PodView:
    return replace(pod, phase="Pending", is_running=False, created_at=NOW)


def is_leaving(pod: PodView) -> PodView:
    return replace(pod, is_deleting=True, deletion_timestamp=NOW, grace_seconds=30)


@pytest.mark.counts_calls
@pytest.mark.parametrize(("state", "calls_per_pod"), [(runs, 10), (is_pending, 12), (is_leaving, 90)])
def test_a_pass_costs_few_calls_per_pod(state: Callable[[PodView], PodView], calls_per_pod: int) -> None:
    workers = [state(make_worker(slot)) for slot in range(PODS)]
    status = {**(RUNNING_STATUS if state is runs else STARTING), "workers": {"desired": PODS, "ready": PODS}}
    observed = make_observed(make_head(), *workers, status=status, spec=make_spec(scaling={"numWorkers": PODS}))
    assert count_calls(lambda: plan(observed)) < calls_per_pod * PODS
