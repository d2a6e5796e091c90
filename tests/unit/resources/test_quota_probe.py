"""A pod that requests what all pods of a job do together."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.json_object import Object
from railhead.resources.quota_probe import build_quota_probe


def make_pod(name: str, *containers: dict[str, Any], **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {"containers": list(containers), **spec}}


def make_container(name: str = "ray", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "train:1", "volumeMounts": [{"name": "x"}], "resources": resources}


def list_requests(pod: Object) -> list[Object]:
    return [each["resources"].get("requests", {}) for each in pod["spec"]["containers"]]


def test_it_requests_what_the_head_and_all_workers_do() -> None:
    head = make_pod("digits-head", make_container(requests={"cpu": "1500m", "memory": "2Gi"}))
    gpus = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}
    sidecar = make_container("proxy", requests={"cpu": "100m"})
    worker = make_pod("digits-w0", make_container(requests=gpus, limits={"nvidia.com/gpu": 2}), sidecar)
    probe = build_quota_probe(head, worker, workers=3)
    assert list_requests(probe) == [
        {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "6"},
        {"cpu": "300m"},
        {"cpu": "1500m", "memory": "2Gi"},
    ]
    assert probe["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "6"}
    assert probe["metadata"] == {"name": "digits-head", "labels": {"a": "b"}}
    assert "volumeMounts" not in probe["spec"]["containers"][-1], "the head's volumes are not there"
    assert list_requests(worker) == [gpus, {"cpu": "100m"}], "the pods themselves stay as they are"


def test_init_containers_and_resources_of_the_pod_count_too() -> None:
    init = make_container("fetch", requests={"cpu": "2"})
    worker = make_pod("w", make_container(), initContainers=[init], resources={"requests": {"memory": "1Gi"}})
    probe = build_quota_probe(make_pod("h", make_container()), worker, workers=2)
    assert probe["spec"]["initContainers"][0]["resources"] == {"requests": {"cpu": "4"}}
    assert probe["spec"]["resources"] == {"requests": {"memory": "2Gi"}}


@pytest.mark.parametrize(
    "resources", [{"requests": {"cpu": "much"}}, {"requests": 3}, {"claims": [{"name": "gpu"}]}, 7]
)
def test_what_a_pod_template_may_hold_beside_quantities_raises_nothing(resources: Any) -> None:
    worker = make_pod("w", {"name": "ray", "image": "train:1", "resources": resources})
    assert build_quota_probe(make_pod("h", make_container()), worker, workers=2)["spec"]["containers"]
