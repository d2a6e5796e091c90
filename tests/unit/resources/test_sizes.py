"""A pod's resource requests and the resources that Ray receives agree."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api.quantities import parse_quantity
from railhead.api.scaling import DEFAULT_GPU, is_gpu
from railhead.contract.job_input import WORKER_SLOT
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from railhead.resources.placement import parse_selector
from railhead.resources.sizes import compute_sizes
from tests.unit.builders import UID, make_spec

MIB = 2**20
cpus = st.one_of(st.integers(1, 64).map(str), st.integers(1, 8000).map(lambda n: f"{n}m"))
memory = st.integers(64, 65536).map(lambda n: f"{n}Mi")
labels = st.sampled_from(["a", "b", "v1.2"])
keys = st.sampled_from(["zone", "example.com/pool", "v1.2"])
selectors = st.sampled_from(["!a", "in(a, b)", "!in(a,b)", "in(a)"])
gpu_names = st.sampled_from([None, DEFAULT_GPU, "nvidia.com/mig-1g.5gb", "amd.com/gpu", "gpu.intel.com/xe"])
added = st.fixed_dictionaries({}, optional={"cpu": cpus, "memory": memory})


@st.composite
def raw_specs(draw: st.DrawFn) -> dict[str, Any]:
    use_gpu, per_pod = draw(st.booleans()), draw(st.integers(1, 8))
    optional = {"cpu": cpus, "memory": memory, "example.com/nic": st.integers(1, 4).map(str)}
    gpu = draw(gpu_names) if use_gpu else None
    if use_gpu:
        optional[gpu or DEFAULT_GPU] = st.integers(1, 8).map(str)
    scaling: dict[str, Any] = {
        "numWorkers": per_pod * draw(st.integers(1, 4)),
        "workersPerPod": per_pod,
        "useGPU": use_gpu,
    }
    if gpu:
        scaling["gpuResourceName"] = gpu
    strategies = ["PACK", "SPREAD"]
    strategies += ["STRICT_PACK"] if scaling["numWorkers"] == per_pod else []
    strategies += ["STRICT_SPREAD"] if per_pod == 1 else []
    scaling["placementStrategy"] = draw(st.sampled_from(strategies))
    if draw(st.booleans()):
        scaling["rayLabelSelector"] = draw(st.dictionaries(keys, st.one_of(labels, selectors), min_size=1, max_size=4))
    scaling["resourcesPerWorker"] = draw(st.fixed_dictionaries({}, optional=optional))
    worker = {"extraResources": draw(added), "overhead": draw(added), "sharedMemory": draw(memory)}
    datasets = {"datasets": {"train": {"function": "data:build"}}} if draw(st.booleans()) else {}
    return {"scaling": scaling, "worker": {**worker, "objectStore": draw(memory)}, **datasets}


def extra_of(raw: dict[str, Any]) -> dict[str, str]:
    """Extra resources of a worker pod, including those for datasets."""
    return {**({"cpu": "1"} if "datasets" in raw else {}), **raw["worker"]["extraResources"]}


def one_worker(raw: dict[str, Any], name: str) -> Any:
    """CPUs or bytes of one worker: the defaults follow its GPUs."""
    scaling = raw["scaling"]
    given_ = scaling["resourcesPerWorker"]
    gpus = int(given_.get(gpu_of(raw), "1")) if scaling["useGPU"] else 0
    defaults = {"cpu": 2 * gpus or 1, "memory": (8 * gpus or 2) * 1024 * MIB}
    return parse_quantity(given_[name]) if name in given_ else defaults[name]


def gpu_of(raw: dict[str, Any]) -> str:
    return str(raw["scaling"].get("gpuResourceName", DEFAULT_GPU))


def number(quantities: Any, name: str) -> Any:
    return parse_quantity(quantities.get(name, "0"))


@given(raw_specs())
def test_rays_resources_and_the_overhead_add_up_to_the_requests(raw: dict[str, Any]) -> None:
    worker = compute_sizes(make_spec(**raw)).worker
    overhead = raw["worker"]["overhead"]
    assert worker.ray.cpus == math.ceil(number(worker.requests, "cpu") - number(overhead, "cpu"))
    assert worker.ray.gpus == number(worker.requests, gpu_of(raw))
    assert worker.ray.resources.get("example.com/nic", 0) == number(worker.requests, "example.com/nic")


@given(raw_specs())
def test_a_pod_requests_the_gpus_that_ray_is_told_and_no_others(raw: dict[str, Any]) -> None:
    sizes = compute_sizes(make_spec(**raw))
    gpus = {name: int(value) for name, value in sizes.worker.requests.items() if is_gpu(name)}
    assert gpus == ({gpu_of(raw): sizes.worker.ray.gpus} if raw["scaling"]["useGPU"] else {})
    assert sizes.worker.ray.gpus == raw["scaling"]["workersPerPod"] * sizes.per_worker.get("GPU", 0)
    assert not any(is_gpu(name) for name in (*sizes.worker.ray.resources, *sizes.per_worker)), "as no other resource"
    assert not any(is_gpu(name) for name in sizes.head.requests)


@given(raw_specs())
def test_memory_has_room_for_workers_overhead_object_store_and_shm(raw: dict[str, Any]) -> None:
    worker = compute_sizes(make_spec(**raw)).worker
    scaling, given_ = raw["scaling"], raw["worker"]
    store = max(number(given_, "objectStore"), 80 * MIB)
    workers = scaling["workersPerPod"] * one_worker(raw, "memory")
    extra = number(extra_of(raw), "memory")
    overhead = parse_quantity(given_["overhead"].get("memory", "1536Mi"))
    assert worker.ray.object_store_bytes == store
    assert parse_quantity(worker.shared_memory) == number(given_, "sharedMemory") + store
    assert number(worker.requests, "memory") == workers + extra + overhead + parse_quantity(worker.shared_memory)


@given(raw_specs())
def test_a_pod_has_room_for_exactly_its_workers(raw: dict[str, Any]) -> None:
    sizes, count = compute_sizes(make_spec(**raw)), raw["scaling"]["workersPerPod"]
    ray = sizes.worker.ray
    room = {**ray.resources, "CPU": ray.cpus, "GPU": ray.gpus}
    assert all(value * count <= room[name] + 1e-6 for name, value in sizes.per_worker.items())
    assert room[WORKER_SLOT] == count * sizes.per_worker[WORKER_SLOT]


@given(raw_specs())
def test_rays_placement_group_fits_the_pods(raw: dict[str, Any]) -> None:
    """A node holds exactly the strategy's number of bundles, with their resources and labels."""
    spec = make_spec(**raw)
    sizes, scaling = compute_sizes(spec), spec.scaling
    node = sizes.worker.ray
    room = {**node.resources, "CPU": node.cpus, "GPU": node.gpus}
    per_node = min(room[name] / value for name, value in sizes.per_worker.items())
    assert math.floor(per_node + 1e-6) == scaling.workers_per_pod
    pods = scaling.most_workers // scaling.workers_per_pod
    assert scaling.placement_strategy != "STRICT_PACK" or math.floor(per_node + 1e-6) == scaling.num_workers
    assert scaling.placement_strategy != "STRICT_SPREAD" or pods == scaling.num_workers
    ray_labels = build_job_input(JobRef("team", "digits", UID), spec).scaling.ray_label_selector
    assert ray_labels == node.labels
    for key, value in ray_labels.items():
        assert parse_selector((scaling.ray_label_selector or {})[key]) == ("In", [value])


@given(raw_specs())
def test_ray_data_has_a_full_cpu_exactly_if_the_extra_one_suffices(raw: dict[str, Any]) -> None:
    """The validation rule `api.datasets.CPU_FOR_TASKS` of the CRD, in its own terms."""
    sizes, count = compute_sizes(make_spec(**raw)), raw["scaling"]["workersPerPod"]
    used = count * one_worker(raw, "cpu")
    extra = number(extra_of(raw), "cpu")
    millis_left = int((used + extra) * 1000 + 999) // 1000 * 1000 - int(used * 1000)
    assert (millis_left >= 1000) == (sizes.worker.ray.cpus - used >= 1)
    if "cpu" not in raw["worker"]["extraResources"]:
        assert (millis_left >= 1000) == ("datasets" in raw)


def test_datasets_raise_the_sizes_unless_the_job_sets_them() -> None:
    datasets = {"train": {"function": "data:build"}}
    sizes = compute_sizes(make_spec(datasets=datasets))
    assert (sizes.worker.ray.cpus, sizes.worker.requests["cpu"]) == (2, "2")
    assert (sizes.worker.ray.object_store_bytes, sizes.worker.requests["memory"]) == (1024 * MIB, "5Gi")
    assert sizes.head.requests == {"cpu": "2", "memory": "8Gi"}
    assert (sizes.head.ray.cpus, sizes.per_worker["CPU"]) == (0, 1.0)
    worker = {"extraResources": {"cpu": "3", "memory": "1Gi"}, "objectStore": "2Gi"}
    sizes = compute_sizes(make_spec(datasets=datasets, worker=worker, head={"resources": {"memory": "4Gi"}}))
    assert (sizes.worker.ray.cpus, sizes.worker.requests["memory"]) == (4, "7Gi")
    assert sizes.head.requests == {"cpu": "2", "memory": "4Gi"}


@given(raw_specs())
def test_limits_are_the_requests_except_cpu(raw: dict[str, Any]) -> None:
    sizes = compute_sizes(make_spec(**raw))
    for size in (sizes.head, sizes.worker):
        assert size.limits == {name: text for name, text in size.requests.items() if name != "cpu"}
        assert "cpu" in size.requests


def test_the_head_never_trains() -> None:
    sizes = compute_sizes(make_spec(scaling={"numWorkers": 2, "useGPU": True}, head={"resources": {"cpu": "8"}}))
    assert sizes.head.requests == {"cpu": "8", "memory": "4Gi"}
    assert (sizes.head.ray.cpus, sizes.head.ray.gpus, sizes.head.ray.resources) == (0, 0, {})


def test_use_gpu_gives_each_worker_one_gpu() -> None:
    with_gpus = compute_sizes(make_spec(scaling={"numWorkers": 8, "workersPerPod": 4, "useGPU": True}))
    assert (with_gpus.worker.requests[DEFAULT_GPU], with_gpus.per_worker["GPU"]) == ("4", 1.0)
    without = compute_sizes(make_spec())
    assert DEFAULT_GPU not in without.worker.requests
    assert "GPU" not in without.per_worker


@pytest.mark.parametrize(("requested", "bytes_"), [("1Mi", 80 * MIB), ("80Mi", 80 * MIB), ("1Gi", 1024 * MIB)])
def test_the_object_store_has_rays_minimum_size(requested: str, bytes_: int) -> None:
    assert compute_sizes(make_spec(worker={"objectStore": requested})).worker.ray.object_store_bytes == bytes_


@pytest.mark.parametrize(
    ("scaling", "requests", "limit", "shm"),
    [
        ({}, {"cpu": "1", "memory": "4352Mi"}, "4352Mi", "768Mi"),
        ({"useGPU": True}, {"cpu": "2", "memory": "10496Mi", DEFAULT_GPU: "1"}, "18176Mi", "8448Mi"),
        (
            {"useGPU": True, "workersPerPod": 8, "numWorkers": 8},
            {"cpu": "16", "memory": "67840Mi", DEFAULT_GPU: "8"},
            "132864Mi",
            "65792Mi",
        ),
    ],
)
def test_defaults_follow_the_gpus(scaling: dict[str, Any], requests: dict[str, str], limit: str, shm: str) -> None:
    """Their shared memory is in the limit, and not all of it in the request: small nodes have room for it too."""
    worker = compute_sizes(make_spec(scaling={"numWorkers": 1, **scaling})).worker
    assert worker.requests == requests
    assert (worker.limits["memory"], worker.shared_memory) == (limit, shm)


@pytest.mark.parametrize(
    ("workers", "requests"),
    [(2, ("2", "4Gi")), (64, ("2", "4Gi")), (512, ("3792m", "7680Mi")), (1000, ("5744m", "11584Mi"))],
)
def test_the_head_grows_with_the_workers(workers: int, requests: tuple[str, str]) -> None:
    head = compute_sizes(make_spec(scaling={"numWorkers": workers})).head
    assert (head.requests["cpu"], head.requests["memory"]) == requests
    elastic = compute_sizes(make_spec(scaling={"minWorkers": 1, "maxWorkers": workers, "desiredWorkers": 1})).head
    assert elastic.requests == head.requests


def test_a_users_sizes_take_the_place_of_defaults_that_follow_the_gpus() -> None:
    scaling = {"numWorkers": 1, "useGPU": True, "resourcesPerWorker": {"memory": "32Gi", DEFAULT_GPU: "2"}}
    worker = compute_sizes(make_spec(scaling=scaling, worker={"sharedMemory": "4Gi"})).worker
    assert worker.requests == {"cpu": "4", "memory": "38656Mi", DEFAULT_GPU: "2"}
    assert worker.limits["memory"] == "38656Mi", "what the user sets is reserved"
