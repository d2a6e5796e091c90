"""The nodes that joined against `scaling.acceleratorType`."""

from __future__ import annotations

from typing import Any

from railhead.driver.node.accelerators import find_wrong_accelerator
from tests.ray.pods import make_job


def make_gpu_job(accelerator: str | None) -> Any:
    return make_job(scaling={"numWorkers": 2, "useGPU": True, "acceleratorType": accelerator})


def make_node(*types: str) -> dict[str, Any]:
    resources = {f"accelerator_type:{name}": 1.0 for name in types}
    return {"NodeManagerAddress": "10.0.0.3", "Resources": {"CPU": 1.0, "GPU": 1.0, **resources}}


def test_accepts_nodes_with_the_accelerator() -> None:
    assert find_wrong_accelerator(make_gpu_job("H100"), []) == ""
    assert find_wrong_accelerator(make_gpu_job("H100"), [make_node("H100"), make_node("H100", "A100-80G")]) == ""


def test_a_job_without_an_accelerator_type_accepts_any_node() -> None:
    assert find_wrong_accelerator(make_gpu_job(None), [make_node(), make_node("A100")]) == ""


def test_names_the_first_wrong_node_and_its_accelerator() -> None:
    problem = find_wrong_accelerator(make_gpu_job("H100"), [make_node("H100"), make_node("A100")])
    assert problem.startswith("scaling.acceleratorType H100: the worker pod at 10.0.0.3 has A100; choose nodes with")
    assert "worker.podTemplate.spec.nodeSelector" in problem
    assert "has no GPU of a type that Ray knows" in find_wrong_accelerator(make_gpu_job("H100"), [make_node()])
