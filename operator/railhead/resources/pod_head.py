"""The head pod: Ray's head and the driver. The only pod that may report to the operator."""

from __future__ import annotations

import json
from typing import Any

from railhead.api import names
from railhead.api.spec import TrainJobSpec
from railhead.api.status import InitialCheckpoint, JobStatus
from railhead.contract import environment as e
from railhead.contract.report import AUDIENCE
from railhead.resources.input import build_dataset_paths
from railhead.resources.mounts import Mounts
from railhead.resources.owner import JobRef
from railhead.resources.pod import HIDE_GPUS, PodPlace, RoleParts, build_pod, build_shared_memory
from railhead.resources.settings import OperatorSettings
from railhead.resources.sizes import compute_sizes

LAST_REPORT_SECONDS = 15  # for a driver that has waited for a commit to write its outcome
TOKEN_FOLDER = "/var/run/railhead"


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
) -> dict[str, Any]:
    """The head pod of one attempt.

    The status holds the known commits of earlier attempts; `worker_pods` is how many are wanted
    at its start.
    """
    size = compute_sizes(spec).head
    volumes, shared_memory = build_shared_memory(size)
    token = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}}
    paths, initial = build_dataset_paths(spec), initial_checkpoint
    limit = spec.progress_deadline_seconds
    env: list[dict[str, Any]] = [
        {"name": e.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": e.CHECKPOINT_INDEX, "value": str(status.newest_index)},
        {"name": e.KNOWN_CHECKPOINTS, "value": json.dumps(_describe_known(status))},
        *([{"name": e.RESUME_FROM, "value": initial.uri}] if initial else []),
        {"name": e.WORKER_PODS, "value": str(worker_pods)},
        {"name": e.END_SECONDS, "value": str(spec.end_seconds)},
        *([{"name": e.PROGRESS_DEADLINE, "value": str(limit)}] if limit is not None else []),
        {"name": e.REPORT_URL, "value": settings.report_url},
        {"name": e.REPORT_TOKEN, "value": f"{TOKEN_FOLDER}/token"},
        *([{"name": e.DATASETS, "value": json.dumps(paths, sort_keys=True)}] if paths else []),
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


def _describe_known(status: JobStatus) -> list[dict[str, Any]]:
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
