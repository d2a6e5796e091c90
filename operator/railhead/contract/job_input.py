"""The job's input: everything that the driver needs from the TrainJob, as one JSON file.

The operator writes it into the job's ConfigMap under `FILE`; the pods' entry point reads it
in both roles. Values that differ between pods or attempts, and all paths (which a local node
rewrites), are in the environment instead (`contract.environment`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional, TypedDict

FILE = "job.json"
SOURCE_PREFIX = "source."  # ConfigMap keys of spec.source.inline: source.<file name>
CHECKOUT = "repository"  # folder of the source volume that git checks out into
CA_KEY = "report-ca.crt"
# Ray resource that reserves worker slots: a node has one per worker, the head has none.
WORKER_SLOT = "railhead_worker"


class RayNode(TypedDict, total=False):
    """The arguments of `ray start` for one node."""

    cpus: int
    gpus: int
    resources: dict[str, float]
    objectStoreBytes: int
    labels: dict[str, str]


@dataclass(frozen=True)
class JobInput:
    """One TrainJob, as the driver needs it.

    Attributes:
        namespace, name, uid: of the TrainJob.
        run_name: the Ray Train run; the same in each attempt, so that a new one resumes.
        is_sharing_run: run.name is in the spec, so the run may be one that another TrainJob has begun.
        former_uids: of the TrainJobs that this one was restored from, the last one at the end.
        framework: of train_func, as in `trainer.framework`, with the default applied.
        train_func, validation_function, build: `module:function`.
        entrypoint: command of a script. Exactly one of the three is set.
        train_loop_config: passed to train_func or build unchanged.
        backend: {name, timeoutSeconds, initMethod}, as supported by the framework's config; empty = Ray's defaults.
        scaling: {numWorkers, useGPU, resourcesPerWorker: {Ray name: float}, placementStrategy, acceleratorType,
            rayLabelSelector: {key: value}}; the arguments of ScalingConfig. In an elastic job minWorkers,
            maxWorkers, workersPerPod, startWaitSeconds and resizeIntervalSeconds replace numWorkers.
        worker_pods: the maximum number of Ray worker nodes; in an elastic job the head's
            environment holds how many are wanted at its start.
        callbacks: run.callbacks, `module:Class` each.
        checkpoint: {numToKeep, scoreAttribute, scoreOrder}; absent keys = Ray's defaults.
        progress: {metric, totalMetric}; empty = the default metrics.
        max_failures: run.failure.maxFailures, or None.
        collective_timeout_seconds: RAY_TRAIN_COLLECTIVE_TIMEOUT_S, or None.
        log_level: LoggingConfig.log_level, or None.
        forward_logs: spec.logs.forward or its default: All, Rank0 or None.
        archive_logs: spec.logs.archive or its default, up to what the operator allows: None, Failed or All.
        archive_wanted: spec.logs.archive, or empty.
        archive_per_rank, archive_per_run: bounds of the archive, in bytes.
        storage_path: a URI, or None when it is a path (then in the environment).
        datasets: {name: {format, uri, split}} or {name: {function, split}}; a uri that is a
            path is in the environment instead.
        ray_node: {head: ..., worker: ...}.
        drain_seconds: spec.worker.drainSeconds or its default, 0 = a worker exits at once on SIGTERM.
        is_drain_required: spec.worker.drainSeconds is set; its default is ignored by a Ray that cannot do it.
        runtime_env: spec.runtimeEnv, with Ray's own keys.
        git: spec.source.git: {repository, revision, path, secretName}; empty = the code comes from elsewhere.
        source_digest: of the files of spec.source.inline (`contract.text`); empty = there are none.
    """

    namespace: str
    name: str
    uid: str
    run_name: str
    scaling: dict[str, Any]
    worker_pods: int
    ray_node: dict[str, RayNode]
    is_sharing_run: bool = False
    former_uids: list[str] = field(default_factory=list)
    framework: str = ""
    train_func: str = ""
    validation_function: str = ""
    build: str = ""
    entrypoint: list[str] = field(default_factory=list)
    train_loop_config: dict[str, Any] = field(default_factory=dict)
    backend: dict[str, Any] = field(default_factory=dict)
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    callbacks: list[str] = field(default_factory=list)
    checkpoint: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, str] = field(default_factory=dict)
    max_failures: Optional[int] = None
    collective_timeout_seconds: Optional[int] = None
    log_level: Optional[str] = None
    forward_logs: str = "All"
    archive_logs: str = "None"
    archive_wanted: str = ""
    archive_per_rank: int = 0
    archive_per_run: int = 0
    drain_seconds: int = 0
    is_drain_required: bool = False
    storage_path: Optional[str] = None
    git: dict[str, Any] = field(default_factory=dict)
    source_digest: str = ""
    runtime_env: dict[str, Any] = field(default_factory=dict)

    @property
    def is_elastic(self) -> bool:
        return "minWorkers" in self.scaling

    @property
    def most_workers(self) -> int:
        """The maximum number of Ray Train workers."""
        return int(self.scaling["maxWorkers" if self.is_elastic else "numWorkers"])

    def to_json(self) -> str:
        return json.dumps(vars(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> JobInput:
        """Unknown keys are dropped, so that an older bundle can read a newer operator's input."""
        values = json.loads(text)
        return JobInput(**{k: v for k, v in values.items() if k in JobInput.__dataclass_fields__})
