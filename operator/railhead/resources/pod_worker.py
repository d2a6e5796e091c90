"""A worker pod: a Ray node that holds the CPUs and GPUs of `workersPerPod` workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from railhead.api import names
from railhead.api.gpus import is_gpu
from railhead.api.spec import TrainJobSpec
from railhead.resources.avoidance import avoid_nodes
from railhead.resources.mounts import Mounts
from railhead.resources.owner import JobRef
from railhead.resources.placement import place_worker
from railhead.resources.pod import HIDE_GPUS, PodPlace, RoleParts, build_pod, build_shared_memory
from railhead.resources.sizes import compute_sizes

AFTER_DRAIN_SECONDS = 10  # for the Ray node to stop


class WorkerPods:
    """The worker pods of an attempt: one is built, and the others are copies that differ in slot and round."""

    def __init__(
        self, job: JobRef, spec: TrainJobSpec, *, mounts: Mounts, attempt: int, avoid: Sequence[str] = ()
    ) -> None:
        self._job = job
        self._spec = spec
        self._mounts = mounts
        self._attempt = attempt
        self._avoid = avoid

    def name(self, slot: int, round_: int) -> str:
        return names.worker_name(self._job.name, self._job.uid, attempt=self._attempt, slot=slot, round_=round_)

    def build(self, *, slot: int, round_: int) -> dict[str, Any]:
        """The pod, as Kubernetes JSON; it shares parts with the others, so nobody may change it."""
        metadata, name = self._first["metadata"], self.name(slot, round_)
        place = {names.LABEL_SLOT: str(slot), names.LABEL_ROUND: str(round_)}
        return {
            **self._first,
            "metadata": {**metadata, "name": name, "labels": {**metadata["labels"], **place}},
            "spec": {**self._first["spec"], "hostname": name},
        }

    @cached_property
    def _first(self) -> dict[str, Any]:
        pod = build_worker_pod(self._job, self._spec, mounts=self._mounts, attempt=self._attempt, slot=0, round_=0)
        return avoid_nodes(pod, self._avoid)


def build_worker_pod(
    job: JobRef, spec: TrainJobSpec, *, mounts: Mounts, attempt: int, slot: int, round_: int
) -> dict[str, Any]:
    """The pod of one worker slot; a replacement has a higher round and so another name."""
    size, drain = compute_sizes(spec).worker, spec.drain_seconds
    volumes, shared_memory = build_shared_memory(size)
    name = names.worker_name(job.name, job.uid, attempt=attempt, slot=slot, round_=round_)
    pod = build_pod(
        job,
        spec,
        mounts=mounts,
        place=PodPlace(name, names.WORKER, attempt, slot, round_),
        size=size,
        parts=RoleParts(
            env=[] if any(is_gpu(name) for name in size.requests) else HIDE_GPUS,
            volumes=volumes,
            mounts=shared_memory,
            least_grace=drain + AFTER_DRAIN_SECONDS if drain else 0,
        ),
    )
    return {**pod, "spec": place_worker(pod["spec"], spec.scaling, job=job, attempt=attempt)}
