"""A job that is changed while it is suspended resumes in the same run, with what its spec says then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from railhead.controller.executor import LostCompare
from railhead.kube.errors import KubeError
from railhead.planning.planner import plan
from tests.model.api_server import Object
from tests.unit.planning.simulation import JOB, KEY, Simulation, known_checkpoints

SOURCE = {"configMap": {"name": "code"}}
BIGGER: Mapping[str, Any] = {
    "image": "example/train:2",
    "env": [{"name": "SEED", "value": "2"}],
    "scaling": {"resourcesPerWorker": {"cpu": "1", "memory": "64Gi"}},
    "trainer": {"trainLoopConfig": {"lr": 0.1}},
    "head": {"resources": {"cpu": "2", "memory": "16Gi"}},
}


def change(sim: Simulation, **spec: Any) -> None:
    """The user's `kubectl patch`."""
    sim.api.patch(JOB, {"spec": spec})


def suspend(sim: Simulation) -> None:
    change(sim, suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and not sim.pods


def describe(body: Object) -> tuple[str, str, str | None]:
    """Image, memory and the variable SEED of a pod."""
    [ray] = body["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in ray["env"]}
    return ray["image"], ray["resources"]["requests"]["memory"], env.get("SEED")


def read_input(sim: Simulation) -> Any:
    """What the driver of the current attempt receives."""
    found = sim.api.objects["configmaps", KEY.namespace, sim.status["input"]]
    return json.loads(found["data"]["job.json"])


def test_out_of_memory_at_hour_100_is_suspend_change_and_resume() -> None:
    sim = Simulation(backoffLimit=1)
    sim.run_until_training()
    uid, before = sim.api.objects[JOB]["metadata"]["uid"], {describe(body) for body in sim.bodies.values()}
    sim.later(100 * 3600)
    sim.report(checkpoint=41, run_uri="/runs/digits")
    sim.settle()
    sim.end_head("OutOfMemory")
    sim.settle()
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.status["restarts"]["application"] == 1
    suspend(sim)
    change(sim, suspend=False, backoffLimit=2, **BIGGER)
    sim.run_until_training()
    assert (sim.status["phase"], sim.status["attempt"], sim.status["round"]) == ("Running", 3, 0)
    assert {describe(body)[::2] for body in sim.bodies.values()} == {("example/train:2", "2")}
    assert not before & {describe(body) for body in sim.bodies.values()}
    assert {describe(body)[1] for name, body in sim.bodies.items() if not name.endswith("head")} == {"67840Mi"}
    assert read_input(sim)["train_loop_config"] == {"lr": 0.1}
    assert [each["index"] for each in known_checkpoints(sim.bodies[sim.head.name])] == [41]
    assert sim.status["runURI"] == "/runs/digits" and sim.status["checkpoint"]["index"] == 41
    assert sim.status["restarts"]["application"] == sim.status["restarts"]["application"] == 1
    assert sim.api.objects[JOB]["metadata"]["uid"] == uid
    worker = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.lose(worker)
    sim.settle()
    [replacement] = [body for name, body in sim.bodies.items() if sim.pods[name].round == 1]
    assert describe(replacement) == ("example/train:2", "67840Mi", "2")


def test_the_copy_of_the_code_stays() -> None:
    sim = Simulation(source=SOURCE)
    code = {"metadata": {"name": "code"}, "data": {"train.py": "first"}}
    sim.api.create(("configmaps", KEY.namespace, "code"), code)
    sim.run_until_training()
    source, old = sim.status["source"], sim.status["input"]
    suspend(sim)
    sim.api.patch(("configmaps", KEY.namespace, "code"), {"data": {"train.py": "second"}})
    change(sim, suspend=False, **BIGGER)
    sim.run_until_training()
    assert sim.status["source"] == source != "" and sim.status["input"] != old
    assert sim.api.objects["configmaps", KEY.namespace, source]["data"] == {"train.py": "first"}


def test_a_job_whose_pods_are_rejected_is_suspended_changed_and_resumed() -> None:
    sim = Simulation(rejects=lambda body: "no" if body["spec"]["containers"][0]["image"].endswith(":1") else "")
    for _ in range(3):
        sim.reconcile()
    assert not sim.pods and sim.status["phase"] == "Pending"
    suspend(sim)
    change(sim, suspend=False, image="example/train:2")
    sim.run_until_training()
    assert sim.status["phase"] == "Running" and len(sim.pods) == 3
    assert "restarts" not in sim.status and "failure" not in sim.status


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Suspending"])
def test_the_api_server_refuses_a_change_in_any_other_phase(phase: str) -> None:
    """As the real one does: tests/api/test_crd_lives.py."""
    sim = Simulation()
    if phase:
        sim.reconcile() if phase == "Pending" else sim.run_until_training()
    if phase == "Suspending":
        change(sim, suspend=True)
        sim.stuck.update(sim.pods)
        sim.reconcile()
    assert sim.status.get("phase", "") == phase
    with pytest.raises(KubeError, match=r"while the job is suspended: spec\.image"):
        change(sim, image="example/train:2")


def test_a_change_while_an_operator_resumes_the_job_is_in_all_pods_or_in_none() -> None:
    """It decided by the spec before the change; the API server confirms no such decision."""
    sim = Simulation()
    sim.run_until_training()
    suspend(sim)
    change(sim, suspend=False)
    stale = plan(sim.observe())
    assert stale.creates and stale.status is not None and stale.status.fields["attempt"] == 2
    change(sim, image="example/train:2")
    with pytest.raises(LostCompare):
        asyncio.run(sim.execute(stale))
    assert not sim.pods and sim.status["phase"] == "Suspended"
    sim.settle()
    with pytest.raises(KubeError):
        change(sim, image="example/train:3")
    assert {body["spec"]["containers"][0]["image"] for body in sim.bodies.values()} == {"example/train:2"}


def test_an_operator_that_has_not_seen_the_change_starts_no_first_attempt() -> None:
    """It saw the job as it was created; another one suspended it before it ever ran."""
    sim = Simulation()
    stale = plan(sim.observe())
    assert stale.creates and stale.status is not None and stale.status.fields["attempt"] == 1
    suspend(sim)
    change(sim, image="example/train:2")
    with pytest.raises(LostCompare):
        asyncio.run(sim.execute(stale))
    assert not sim.pods and sim.status["phase"] == "Suspended"
