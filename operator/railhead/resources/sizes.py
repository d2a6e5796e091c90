"""Computes the pods' sizes and the resources given to Ray in one pure function, so that both agree.

A worker pod requests its workers' resources, the user's extra resources, Ray's overhead,
the object store and shared memory (a memory-backed /dev/shm counts towards the container's
limit). Ray gets the workers' and the extra CPUs, the GPUs and custom resources, but
never the overhead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from railhead.api.quantities import format_bytes, format_resource, parse_quantity, parse_resources
from railhead.api.spec import TrainJobSpec
from railhead.contract.job_input import WORKER_SLOT, RayNode
from railhead.resources.placement import compute_ray_labels

# Each pod has workersPerPod of WORKER_SLOT and each worker takes one. Otherwise Ray, which counts whole
# CPUs only and packs, would put more workers into one pod and leave another one empty.
DEFAULT_WORKER = {"cpu": "1", "memory": "2Gi"}
# For each GPU of a worker: CUDA and torch alone need 2 to 4 GiB, and Ray limits OMP_NUM_THREADS to `cpu`.
DEFAULT_PER_GPU = {"cpu": "2", "memory": "8Gi"}
DEFAULT_HEAD = {"cpu": "2", "memory": "4Gi"}
# The head's part for each worker beyond the first ones, which its default has room for.
HEAD_PER_WORKER = {"cpu": "4m", "memory": "8Mi"}
HEAD_WORKERS = 64
DEFAULT_OVERHEAD = {"memory": "1536Mi"}
DEFAULT_OBJECT_STORE = "256Mi"
DEFAULT_SHARED_MEMORY = "512Mi"
GPU_SHARED_MEMORY = "8Gi"  # for each worker: NCCL's buffers, and the batches of its data loader's processes
TASKS_EXTRA = {"cpu": "1"}  # for tasks of Ray Data and of validations
# With datasets: room for their blocks (128 MiB each, several at a time; with 256Mi Ray spills to
# disk constantly), and a head that runs their coordinators.
DATA_HEAD = {"cpu": "2", "memory": "8Gi"}
DATA_OBJECT_STORE = "1Gi"
HEAD_OBJECT_STORE = "128Mi"
HEAD_SHARED_MEMORY = "256Mi"
LEAST_OBJECT_STORE = Decimal(80) * 2**20  # Ray rejects less


@dataclass(frozen=True)
class PodSize:
    """Kubernetes requests and limits of one pod, its /dev/shm, and the resources given to Ray."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]
    shared_memory: str
    ray: RayNode


@dataclass(frozen=True)
class Sizes:
    """Both roles, and what each Ray Train worker requests from Ray."""

    head: PodSize
    worker: PodSize
    per_worker: Mapping[str, float]


def compute_sizes(spec: TrainJobSpec) -> Sizes:
    """Returns the sizes of a job's pods, in whole CPUs and bytes, and Ray's view of them."""
    return Sizes(head=_head(spec), worker=_worker(spec), per_worker=_per_worker(spec))


def _worker_resources(spec: TrainJobSpec) -> dict[str, Decimal]:
    wanted = parse_resources(spec.scaling.resources_per_worker)
    default = parse_resources(DEFAULT_WORKER)
    if spec.scaling.use_gpu:
        gpus = wanted.setdefault(spec.scaling.gpu_resource, Decimal(1))
        default = {name: value * gpus for name, value in parse_resources(DEFAULT_PER_GPU).items()}
    return {**default, **wanted}


def _shared_memory(spec: TrainJobSpec) -> tuple[Decimal, Decimal]:
    """Returns what a worker pod may use beside the object store, and what is reserved for it.

    What the user sets is reserved. The default with GPUs is large, and is not, so that small nodes have room for it.
    """
    if spec.worker.shared_memory is not None:
        wanted = parse_quantity(spec.worker.shared_memory)
        return wanted, wanted
    reserved = parse_quantity(DEFAULT_SHARED_MEMORY)
    if not spec.scaling.use_gpu:
        return reserved, reserved
    return parse_quantity(GPU_SHARED_MEMORY) * spec.scaling.workers_per_pod, reserved


def _per_worker(spec: TrainJobSpec) -> dict[str, float]:
    """Returns Ray's names and numbers of one worker: CPU, GPU and custom resources; memory is left to the pod."""
    resources = {WORKER_SLOT: 1.0}
    for name, value in _worker_resources(spec).items():
        if name == "cpu":
            resources["CPU"] = float(value)
        elif name == spec.scaling.gpu_resource:
            resources["GPU"] = float(value)
        elif name not in ("memory", "ephemeral-storage"):
            resources[name] = float(value)
    return {name: value for name, value in resources.items() if value > 0}


def _worker(spec: TrainJobSpec) -> PodSize:
    count = spec.scaling.workers_per_pod
    workers = {name: value * count for name, value in _worker_resources(spec).items()}
    extra = _extra_resources(spec)
    overhead = {**parse_resources(DEFAULT_OVERHEAD), **parse_resources(spec.worker.overhead)}
    default_store = DATA_OBJECT_STORE if spec.datasets else DEFAULT_OBJECT_STORE
    store = max(parse_quantity(spec.worker.object_store or default_store), LEAST_OBJECT_STORE)
    shared, reserved = _shared_memory(spec)
    total = _sum(workers, extra, overhead, {"memory": reserved + store})
    cpus = workers.get("cpu", Decimal(0)) + extra.get("cpu", Decimal(0))
    slots = {WORKER_SLOT: float(count)}
    devices = {name: value for name, value in _sum(workers, extra).items() if "/" in name and value > 0}
    gpus = devices.pop(spec.scaling.gpu_resource, Decimal(0))
    ray = RayNode(
        cpus=int(cpus.to_integral_value(rounding=ROUND_CEILING)),  # ray start accepts whole CPUs only
        gpus=int(gpus),
        resources={**slots, **{name: float(value) for name, value in devices.items()}},
        object_store_bytes=int(store),
        labels=compute_ray_labels(spec.scaling.ray_label_selector),
    )
    return _pod_size(total, shared=shared + store, unreserved=shared - reserved, ray=ray)


def _extra_resources(spec: TrainJobSpec) -> dict[str, Decimal]:
    has_tasks = bool(spec.datasets or spec.trainer.validation_function)
    return {**parse_resources(TASKS_EXTRA if has_tasks else {}), **parse_resources(spec.worker.extra_resources)}


def _head(spec: TrainJobSpec) -> PodSize:
    """Sizes the head, which runs Ray's control plane and the driver: it offers no CPUs and no GPUs to Ray."""
    more = max(spec.scaling.most_workers - HEAD_WORKERS, 0)
    per_worker = {name: value * more for name, value in parse_resources(HEAD_PER_WORKER).items()}
    default = _sum(parse_resources(DATA_HEAD if spec.datasets else DEFAULT_HEAD), per_worker)
    total = {**default, **parse_resources(spec.head.resources)}
    store = parse_quantity(HEAD_OBJECT_STORE)
    ray = RayNode(cpus=0, gpus=0, resources={}, object_store_bytes=int(store), labels={})
    return _pod_size(total, shared=parse_quantity(HEAD_SHARED_MEMORY), unreserved=Decimal(0), ray=ray)


def _pod_size(total: Mapping[str, Decimal], *, shared: Decimal, unreserved: Decimal, ray: RayNode) -> PodSize:
    """Returns the size of a pod. `unreserved`: memory that the limit has and the request has not."""
    requests = {name: format_resource(name, value) for name, value in total.items() if value > 0}
    # No CPU limit: a throttled raylet looks like a dead one.
    limits = {name: text for name, text in requests.items() if name != "cpu"}
    limits["memory"] = format_resource("memory", total["memory"] + unreserved)
    return PodSize(requests=requests, limits=limits, shared_memory=format_bytes(shared), ray=ray)


def _sum(*parts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, Decimal(0)) + value
    return total
