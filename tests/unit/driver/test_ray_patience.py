"""Ray's node may take longer to come up than Ray itself would wait."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest

from railhead.driver.ray_patience import LOOK_INTERVAL, be_patient


def make_services(answers: list[dict[str, str] | None]) -> SimpleNamespace:
    def get_node(gcs_address: str, node_id: str) -> dict[str, str]:
        answer = answers.pop(0)
        if answer is None:
            raise RuntimeError(f"{node_id} is not known")
        return answer

    return SimpleNamespace(get_node=get_node)


def test_a_node_that_comes_late_is_waited_for() -> None:
    slept: list[float] = []
    services = make_services([None, None, {"node_id": "a"}])
    be_patient(services, seconds=10, sleep=slept.append)
    assert services.get_node("10.0.0.1:6379", "a") == {"node_id": "a"}
    assert slept == [LOOK_INTERVAL, LOOK_INTERVAL]


def test_a_node_that_never_comes_is_said_in_the_end() -> None:
    services = make_services([None] * 5)
    be_patient(services, seconds=4 * LOOK_INTERVAL, sleep=lambda _: None)
    with pytest.raises(RuntimeError, match="a is not known"):
        services.get_node("10.0.0.1:6379", node_id="a")


def test_a_ray_without_it_is_left_alone() -> None:
    services = SimpleNamespace()
    be_patient(services)
    assert not vars(services)


def test_contract_ray_asks_where_we_replace_it() -> None:
    from ray._private import node, services

    assert "ray._private.services.get_node(" in inspect.getsource(node.Node.__init__)
    assert "except RuntimeError" in inspect.getsource(node.Node.__init__)
    assert list(inspect.signature(services.get_node).parameters) == ["gcs_address", "node_id"]
