"""A worker pod: a Ray node that holds the CPUs and GPUs of `workersPerPod` workers."""

from __future__ import annotations

from typing import Any

from railhead.api import names
from railhead.api.spec import TrainJobSpec
from railhead.resources.owner import JobRef
from railhead.resources.placement import place_worker
from railhead.resources.pod import HIDE_GPUS, PodPlace, RoleParts, build_pod, build_shared_memory
from railhead.resources.settings import OperatorSettings
from railhead.resources.sizes import compute_sizes

AFTER_DRAIN_SECONDS = 10  # for the Ray node to stop


def build_worker_pod(
    job: JobRef, spec: TrainJobSpec, *, settings: OperatorSettings, attempt: int, slot: int, round_: int
) -> dict[str, Any]:
    """The pod of one worker slot; a replacement has a higher round and so another name."""
    size, drain = compute_sizes(spec).worker, spec.drain_seconds
    volumes, mounts = build_shared_memory(size)
    name = names.worker_name(job.name, job.uid, attempt=attempt, slot=slot, round_=round_)
    pod = build_pod(
        job,
        spec,
        settings=settings,
        place=PodPlace(name, names.WORKER, attempt, slot, round_),
        size=size,
        parts=RoleParts(
            env=HIDE_GPUS if not any("/" in name for name in size.requests) else [],
            volumes=volumes,
            mounts=mounts,
            least_grace=drain + AFTER_DRAIN_SECONDS if drain else 0,
        ),
    )
    return {**pod, "spec": place_worker(pod["spec"], spec.scaling, job=job, attempt=attempt)}
