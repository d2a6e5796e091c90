"""A worker pod that does not answer its driver is replaced long before Kubernetes evicts it."""

from __future__ import annotations

from typing import Any

from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from tests.unit.builders import RUNNING_STATUS, is_empty, make_head, make_observed, make_spec, make_worker
from tests.unit.planning.state import decide

SILENT = make_worker(1)


def run(*lost: str, attempt: int = 1, elastic: bool = False) -> Plan:
    """All pods run, as far as Kubernetes knows."""
    progress = {**RUNNING_STATUS["progress"], "attempt": attempt, "state": "RESTARTING", "lostPods": list(lost)}
    scaling: dict[str, Any] = {"minWorkers": 1, "maxWorkers": 2, "desiredWorkers": 2} if elastic else {"numWorkers": 2}
    observed = make_observed(
        make_head(),
        make_worker(0),
        SILENT,
        status={**RUNNING_STATUS, "progress": progress},
        spec=make_spec(scaling=scaling, backoffLimit=0, noProgressLimit=0),
    )
    return plan(observed)


def test_it_is_deleted_and_replaced_at_once() -> None:
    for elastic in (False, True):
        wanted = run(SILENT.name, elastic=elastic)
        assert wanted.status is not None and wanted.status.fields["round"] == 1
        assert [(each.name, each.uid) for each in wanted.deletes] == [(SILENT.name, SILENT.uid)]
        assert [each.name for each in wanted.creates if each.kind == "Pod"] == [make_worker(1, round_=1).name]
        assert wanted.status.fields["disruptions"]["total"] == 1
        [event] = wanted.events
        assert f"{SILENT.name} (it does not answer the driver; node node-1)" in event.message


def test_reported_pods_that_are_gone_or_of_another_attempt_are_ignored() -> None:
    assert run(make_worker(1, round_=7).name).deletes == ()
    assert run(SILENT.name, attempt=2).deletes == ()


def test_its_failure_names_the_node() -> None:
    progress = {**RUNNING_STATUS["progress"], "lostPods": [SILENT.name]}
    losses = {"rounds": 20, "ownFault": 0, "checkpoint": -1}
    status = {**RUNNING_STATUS, "progress": progress, "workerLosses": losses}
    wanted = decide(make_head(), make_worker(0), SILENT, status=status)
    assert wanted.status is not None
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["reason"], failure["node"]) == ("Infrastructure", "NodeLost", "node-1")
    assert not is_empty(wanted) and "does not answer its driver; check node node-1" in failure["message"]
