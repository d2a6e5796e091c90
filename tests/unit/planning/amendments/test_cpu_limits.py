"""A CPU limit that admission adds to the ray container is shown; nothing else that it adds is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from railhead.api import names
from tests.model.api_server import Object
from tests.model.operator import PODS
from tests.unit.planning.simulation import Simulation

RAY_LIMIT = {"spec": {"containers": [{"name": names.CONTAINER, "resources": {"limits": {"cpu": "8"}}}]}}
SIDECAR = {"name": "proxy", "image": "proxy:1", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}


def find_condition(sim: Simulation) -> str:
    """Its message, or an empty string."""
    found = [each for each in sim.status["conditions"] if each["type"] == "CPULimited"]
    assert all((each["status"], each["reason"]) == ("True", "CPULimitAdded") for each in found)
    return str(found[0]["message"]) if found else ""


def fill_in(plural: str, body: Object) -> Object:
    """As a LimitRange with `default: {cpu: 4}`."""
    if plural != PODS:
        return body
    return add(body, lambda container: container["resources"]["limits"].setdefault("cpu", "4"))


def add_others(plural: str, body: Object) -> Object:
    """As a webhook that adds a sidecar and a limit for ephemeral storage."""
    if plural != PODS:
        return body
    body = add(body, lambda container: container["resources"]["limits"].update({"ephemeral-storage": "1Gi"}))
    body["spec"]["containers"].append(SIDECAR)
    return body


def add(body: Object, change: Callable[[Object], object]) -> Object:
    body = copy.deepcopy(body)
    change(body["spec"]["containers"][0])
    return body


def test_a_limit_that_the_job_did_not_ask_for_is_shown_once_until_the_pods_are_gone() -> None:
    sim = Simulation(podTemplate={"spec": {"containers": [SIDECAR]}})
    sim.api.mutation = fill_in
    sim.run_until_training()
    message = find_condition(sim)
    assert "(4 on container ray of head pods, 4 on container ray of worker pods)" in message
    assert "LimitRange in namespace default" in message and "podTemplate" in message
    sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))
    sim.run_until_training()
    assert sim.status["round"] == 1 and find_condition(sim) == message
    assert sim.events.count("CPULimitAdded") == 1
    sim.restart()
    sim.settle()
    assert find_condition(sim) == message and sim.events.count("CPULimitAdded") == 1
    sim.api.mutation = lambda plural, body: body
    sim.end_head("Infrastructure")
    sim.settle()
    sim.later(60)
    sim.run_until_training()
    assert sim.status["attempt"] == 2 and find_condition(sim) == ""


@pytest.mark.parametrize(
    ("mutation", "spec"),
    [
        pytest.param(add_others, {}, id="other containers and resources"),
        pytest.param(fill_in, {"podTemplate": RAY_LIMIT}, id="a limit of the job's own"),
    ],
)
def test_what_does_not_throttle_ray_or_was_asked_for_is_not_shown(
    mutation: Callable[[str, Object], Object], spec: dict[str, Any]
) -> None:
    sim = Simulation(**spec)
    sim.api.mutation = mutation
    sim.run_until_training()
    assert find_condition(sim) == "" and "CPULimitAdded" not in sim.events


def test_a_limit_that_the_template_of_one_role_sets_hides_no_limit_of_the_other() -> None:
    sim = Simulation(head={"podTemplate": RAY_LIMIT})
    sim.api.mutation = fill_in
    sim.run_until_training()
    assert "(4 on container ray of worker pods)" in find_condition(sim)
