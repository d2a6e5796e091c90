"""Which container has Ray."""

from __future__ import annotations

from railhead.api.ray_container import read_ray_container


def test_the_container_with_ray_is_known_by_its_name_in_spec_and_status() -> None:
    proxy, ray = {"name": "istio-proxy"}, {"name": "ray", "image": "a"}
    assert read_ray_container({"containers": [proxy, ray]}) is ray
    assert read_ray_container({"containerStatuses": [ray, proxy]}, "containerStatuses") is ray


def test_a_pod_without_it_has_an_empty_one() -> None:
    assert read_ray_container({"containers": [{"name": "ray-2"}, "ray", None]}) == {}
    assert read_ray_container({"containers": None}) == read_ray_container({}) == {}
