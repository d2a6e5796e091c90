"""The pods of the two roles.

The head pod runs Ray's head and the driver, and is the only pod that may report to the operator. A worker pod is a Ray
node that holds the CPUs and GPUs of `workersPerPod` workers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

from railhead.api import names
from railhead.api.base import Object
from railhead.api.scaling import is_gpu
from railhead.api.spec import TrainJobSpec
from railhead.api.status import InitialCheckpoint, JobStatus
from railhead.contract import environment
from railhead.contract.report import AUDIENCE
from railhead.resources.mounts import Mounts, build_dataset_paths
from railhead.resources.owner import JobRef
from railhead.resources.placement import avoid_nodes, place_worker
from railhead.resources.pod import HIDE_GPUS, PodPlace, RoleParts, build_pod, build_shared_memory
from railhead.resources.settings import OperatorSettings
from railhead.resources.sizes import compute_sizes

LAST_REPORT_SECONDS = 15  # for a driver that has waited for a commit to write its outcome
TOKEN_FOLDER = "/var/run/railhead"
AFTER_DRAIN_SECONDS = 10  # for the Ray node to stop


def build_head_pod(
    job: JobRef,
    spec: TrainJobSpec,
    *,
    settings: OperatorSettings,
    mounts: Mounts,
    attempt: int,
    status: JobStatus,
    worker_pods: int,
    initial_checkpoint: InitialCheckpoint | None = None,
) -> Object:
    """The head pod of one attempt.

    The status holds the known commits of earlier attempts; `worker_pods` is how many are wanted
    at its start.
    """
    size = compute_sizes(spec).head
    volumes, shared_memory = build_shared_memory(size)
    token = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}}
    paths, initial = build_dataset_paths(spec), initial_checkpoint
    limit = spec.progress_deadline_seconds
    env: list[Object] = [
        {"name": environment.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": environment.CHECKPOINT_INDEX, "value": str(status.newest_index)},
        {"name": environment.KNOWN_CHECKPOINTS, "value": json.dumps(_describe_known(status))},
        *([{"name": environment.RESUME_FROM, "value": initial.uri}] if initial else []),
        {"name": environment.WORKER_PODS, "value": str(worker_pods)},
        {"name": environment.END_SECONDS, "value": str(spec.end_seconds)},
        *([{"name": environment.PROGRESS_DEADLINE, "value": str(limit)}] if limit is not None else []),
        {"name": environment.REPORT_URL, "value": settings.report_url},
        {"name": environment.REPORT_TOKEN, "value": f"{TOKEN_FOLDER}/token"},
        *([{"name": environment.DATASETS, "value": json.dumps(paths, sort_keys=True)}] if paths else []),
        *HIDE_GPUS,
    ]
    return build_pod(
        job,
        spec,
        mounts=mounts,
        place=PodPlace(names.head_name(job.name, job.uid, attempt), names.HEAD, attempt),
        size=size,
        parts=RoleParts(
            env=env,
            volumes=[
                *volumes,
                {"name": "railhead-token", "projected": {"sources": [token], "defaultMode": 0o440}},
            ],
            mounts=[*shared_memory, {"name": "railhead-token", "mountPath": TOKEN_FOLDER, "readOnly": True}],
            least_grace=spec.end_seconds + LAST_REPORT_SECONDS,
        ),
    )


def _describe_known(status: JobStatus) -> list[Object]:
    """`contract.environment.KNOWN_CHECKPOINTS`: only the folders' names, because a local node rewrites paths.

    A script has a run for each fit(), and may have lost its head before the newest one had a commit.
    """
    current = status.run_uri.partition("?")[0].rstrip("/")
    known = {c.index: c for c in (status.best_checkpoint, status.checkpoint) if c}
    described = []
    for index, checkpoint in sorted(known.items()):
        uri = checkpoint.uri.partition("?")[0]
        run = current if current and uri.startswith(f"{current}/") else uri.rpartition("/")[0]
        commit = {"index": index, "time": checkpoint.time or "", "attempt": checkpoint.attempt}
        described.append({"name": uri[len(run) + 1 :], "run": run.rpartition("/")[2], **commit})
    return described


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

    def build(self, *, slot: int, round_: int) -> Object:
        """The pod, as Kubernetes JSON; it shares parts with the others, so nobody may change it."""
        metadata, name = self._first["metadata"], self.name(slot, round_)
        place = {names.LABEL_SLOT: str(slot), names.LABEL_ROUND: str(round_)}
        return {
            **self._first,
            "metadata": {**metadata, "name": name, "labels": {**metadata["labels"], **place}},
            "spec": {**self._first["spec"], "hostname": name},
        }

    @cached_property
    def _first(self) -> Object:
        pod = build_worker_pod(self._job, self._spec, mounts=self._mounts, attempt=self._attempt, slot=0, round_=0)
        return avoid_nodes(pod, self._avoid)


def build_worker_pod(
    job: JobRef, spec: TrainJobSpec, *, mounts: Mounts, attempt: int, slot: int, round_: int
) -> Object:
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
