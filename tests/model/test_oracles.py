"""An oracle accepts what a fault may cause, and nothing beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api import names
from railhead.api.goodput import LostSeconds
from railhead.planning.facts.pod_failure import LossReason
from railhead.planning.facts.reasons import PARTIAL_START
from tests.model.api_server import JOBS, ModelApiServer, Object
from tests.model.oracles import check_goodput
from tests.model.pass_oracles import Circumstances, HealthyPodsStay, NodesAreGivenBack, Witness
from tests.model.world import NAMESPACE, World
from tests.unit.builders import NOW

JOB = (JOBS, "default", "digits")


def spend(seconds: int) -> dict[str, Any]:
    """The operation that writes goodput that many seconds after the start."""
    lost = LostSeconds(pods_pending=seconds).model_dump(by_alias=True)
    goodput = {
        "time": f"2026-01-01T12:00:{seconds:02}Z",
        "wallSeconds": seconds,
        "productiveSeconds": 0,
        "lostSeconds": lost,
        "gpuSeconds": 0,
        "lostGPUSeconds": 0,
    }
    return {"op": "add", "path": "/status/goodput", "value": goodput}


def make_api(*writes: list[dict[str, Any]]) -> ModelApiServer:
    api = ModelApiServer(lambda: NOW)
    api.create(JOB, {"metadata": {"name": "digits"}, "spec": {}})
    for operations in writes:
        api.patch(JOB, operations, subresource="status", content_type="application/json-patch+json")
    return api


def test_a_write_whose_answer_was_lost_may_be_repeated_later() -> None:
    phase = {"op": "add", "path": "/status/phase", "value": "Pending"}
    check_goodput(make_api([phase, spend(1)], [phase, spend(6)]))


def test_time_that_passes_is_no_reason_for_a_write() -> None:
    test = {"op": "test", "path": "/status/attempt", "value": 0}
    with pytest.raises(AssertionError, match="no reason for a write"):
        check_goodput(make_api([test, spend(1)]), operators=2)


def make_gang(world: World, job: Object, *workers: int) -> None:
    """Starts the head of attempt 3, and one worker of each of those attempts on a node."""
    owner = {"kind": names.KIND, "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    head = names.head_name(owner["name"], owner["uid"], 3)
    for number, (role, attempt) in enumerate([(names.HEAD, 3), *((names.WORKER, each) for each in workers)]):
        name = f"pod-{number}" if role == names.WORKER else head
        labels = {names.LABEL_ROLE: role, names.LABEL_ATTEMPT: str(attempt)}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        place = ("pods", NAMESPACE, name)
        world.api.create(place, {"metadata": metadata, "spec": {"nodeName": f"node-{number}"}})
        world.api.patch(place, {"status": {"phase": "Running"}}, subresource="status")


@pytest.mark.parametrize(
    ("attempts", "is_caught"),
    [((3, 3), True), ((3,), False), ((2, 3), False)],
    ids=["complete", "incomplete", "and one of an earlier attempt that may not be deleted"],
)
def test_only_pods_of_the_current_attempt_can_train(attempts: tuple[int, ...], is_caught: bool) -> None:
    world = World()
    make_gang(world, world.apply(scaling={"numWorkers": 2, "useGPU": True}), *attempts)
    witness = Witness(Circumstances(world), oracles=(NodesAreGivenBack,))
    status = {"phase": "Restarting", "attempt": 3, "failure": {"attempt": 3, "reason": PARTIAL_START}}
    world.api.patch(JOB, {"status": status}, subresource="status")
    assert ("NodesAreGivenBack: a job that can train released its pods" in witness.violations) == is_caught


@pytest.mark.parametrize(
    ("was_denied", "twin", "is_caught"),
    [(True, "Running", False), (True, "Pending", True), (False, "Running", True)],
    ids=["the slot keeps a healthy pod", "nothing trains in the slot", "no policy has denied to delete it"],
)
def test_of_two_pods_in_one_slot_a_healthy_one_stays(was_denied: bool, twin: str, is_caught: bool) -> None:
    world = World()
    job = world.apply(scaling={"numWorkers": 1})
    make_gang(world, job, 3, 3)
    witness = Witness(Circumstances(world), oracles=(HealthyPodsStay,))
    world.api.patch(
        JOB, {"status": {"phase": "Running", "attempt": 3, "workers": {"desired": 1}}}, subresource="status"
    )
    for name in ("pod-1", "pod-2"):
        labels = {"metadata": {"labels": {names.LABEL_SLOT: "0"}}}
        world.api.patch(("pods", NAMESPACE, name), labels)
    world.api.patch(("pods", NAMESPACE, "pod-2"), {"status": {"phase": twin}}, subresource="status")
    if was_denied:
        world.denied.add("pod-1")
    for judge in world.policies:
        judge("DELETE", ("pods", NAMESPACE, "pod-1"), "")
    assert witness.violations == (["HealthyPodsStay: pod-1 was healthy"] if is_caught else [])


@pytest.mark.parametrize(
    ("missed", "is_caught"),
    [(["pod-1", "pod-2"], False), (["pod-1"], True), ([], True)],
    ids=["the driver missed workers of two nodes", "it missed one worker", "it missed none"],
)
def test_a_head_is_judged_by_its_last_report_whatever_has_been_repaired_since(
    missed: list[str], is_caught: bool
) -> None:
    world = World()
    make_gang(world, world.apply(scaling={"numWorkers": 2}), 3, 3)
    witness = Witness(Circumstances(world), oracles=(HealthyPodsStay,))
    failure = {"attempt": 3, "reason": LossReason.HEAD_CUT_OFF, "class": "Infrastructure"}
    status = {"phase": "Restarting", "attempt": 3, "progress": {"attempt": 3, "lostPods": missed}, "failure": failure}
    world.api.patch(JOB, {"status": status}, subresource="status")
    assert bool(witness.violations) == is_caught
