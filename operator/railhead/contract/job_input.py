"""The job's input: everything that the driver needs from the TrainJob, as one JSON file.

The operator writes it into the job's ConfigMap under `FILE`; the pods' entry point reads it
in both roles. What differs between pods or attempts, and what a process needs to find this file,
is in the environment instead (`contract.environment`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from railhead.contract.json_values import load_value

FILE = "job.json"
SOURCE_PREFIX = "source."  # ConfigMap keys of spec.source.inline: source.<file name>
CHECKOUT = "repository"  # folder of the source volume that git checks out into
CA_KEY = "report-ca.crt"
# Ray resource that reserves worker slots: a node has one per worker, the head has none.
WORKER_SLOT = "railhead_worker"
DASHBOARD = "Ray's dashboard"  # begins each line about it in the head's log, by which `railhead dashboard` finds them
DASHBOARD_PORT = 8265  # of Ray's dashboard, on the loopback of the head pod: Ray's own default


@dataclass(frozen=True)
class RayNode:
    """The arguments of `ray start` for one node."""

    cpus: int = 0
    gpus: int = 0
    resources: Dict[str, float] = field(default_factory=dict)
    object_store_bytes: int = 0
    labels: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RayNodes:
    """The nodes of both roles."""

    head: RayNode = field(default_factory=RayNode)
    worker: RayNode = field(default_factory=RayNode)


@dataclass(frozen=True)
class ElasticInput:
    """How an elastic job resizes its worker group, in Ray Train workers and seconds."""

    min_workers: int
    workers_per_pod: int
    start_wait_seconds: int
    resize_interval_seconds: int


@dataclass(frozen=True)
class ScalingInput:
    """The arguments of ScalingConfig.

    Attributes:
        num_workers: in an elastic job the maximum.
        resources_per_worker: by Ray's names.
        elastic: None for a fixed number of workers.
    """

    num_workers: int
    use_gpu: bool = False
    resources_per_worker: Dict[str, float] = field(default_factory=dict)
    placement_strategy: Optional[str] = None
    accelerator_type: Optional[str] = None
    ray_label_selector: Dict[str, str] = field(default_factory=dict)
    elastic: Optional[ElasticInput] = None


@dataclass(frozen=True)
class BackendInput:
    """spec.trainer.backend; what is None is left to Ray."""

    name: Optional[str] = None
    timeout_seconds: Optional[int] = None
    init_method: Optional[str] = None


@dataclass(frozen=True)
class CheckpointInput:
    """spec.run.checkpoint; what is None is left to Ray."""

    num_to_keep: Optional[int] = None
    score_attribute: Optional[str] = None
    score_order: Optional[str] = None


@dataclass(frozen=True)
class ProgressInput:
    """spec.run.progress; empty names mean the default metrics."""

    metric: str = ""
    total_metric: str = ""


@dataclass(frozen=True)
class DatasetInput:
    """One of spec.datasets: with `function`, or with `format` and `uri`."""

    function: str = ""
    format: str = ""
    uri: str = ""
    split: bool = True


@dataclass(frozen=True)
class GitInput:
    """spec.source.git."""

    repository: str
    revision: str
    path: str = ""
    secret_name: str = ""


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
        worker_pods: the maximum number of Ray worker nodes; in an elastic job the head's
            environment holds how many are wanted at its start.
        callbacks: run.callbacks, `module:Class` each.
        max_failures: run.failure.maxFailures, or None.
        collective_timeout_seconds: RAY_TRAIN_COLLECTIVE_TIMEOUT_S, or None.
        log_level: LoggingConfig.log_level, or None.
        forward_logs: spec.logs.forward or its default: All, Rank0 or None.
        archive_logs: spec.logs.archive or its default, up to what the operator allows: None, Failed or All.
        archive_wanted: spec.logs.archive, or empty.
        archive_per_rank, archive_per_run: bounds of the archive, in bytes.
        storage_path: spec.run.storagePath, a URI or a path.
        datasets: by name.
        end_seconds: how long the head waits for one more commit after SIGTERM.
        metrics_port: spec.metrics.port, or None.
        has_dashboard: spec.ray.dashboard.
        drain_seconds: spec.worker.drainSeconds or its default, 0 = a worker exits at once on SIGTERM.
        is_drain_required: spec.worker.drainSeconds is set; its default is ignored by a Ray that cannot do it.
        runtime_env: spec.runtimeEnv, with Ray's own keys.
        git: None = the code comes from elsewhere.
        source_digest: of the files of spec.source.inline (`contract.digest`); empty = there are none.
    """

    namespace: str
    name: str
    uid: str
    run_name: str
    scaling: ScalingInput
    worker_pods: int
    ray_node: RayNodes = field(default_factory=RayNodes)
    is_sharing_run: bool = False
    former_uids: list[str] = field(default_factory=list)
    framework: str = ""
    train_func: str = ""
    validation_function: str = ""
    build: str = ""
    entrypoint: list[str] = field(default_factory=list)
    train_loop_config: dict[str, Any] = field(default_factory=dict)
    backend: BackendInput = field(default_factory=BackendInput)
    datasets: Dict[str, DatasetInput] = field(default_factory=dict)
    callbacks: list[str] = field(default_factory=list)
    checkpoint: CheckpointInput = field(default_factory=CheckpointInput)
    progress: ProgressInput = field(default_factory=ProgressInput)
    max_failures: Optional[int] = None
    collective_timeout_seconds: Optional[int] = None
    log_level: Optional[str] = None
    forward_logs: str = "All"
    archive_logs: str = "None"
    archive_wanted: str = ""
    archive_per_rank: int = 0
    archive_per_run: int = 0
    end_seconds: int = 0
    metrics_port: Optional[int] = None
    has_dashboard: bool = False
    drain_seconds: int = 0
    is_drain_required: bool = False
    storage_path: str = ""
    git: Optional[GitInput] = None
    source_digest: str = ""
    runtime_env: dict[str, Any] = field(default_factory=dict)

    @property
    def is_elastic(self) -> bool:
        return self.scaling.elastic is not None

    def to_json(self) -> str:
        # `asdict` would copy all values first, and this text is made in every pass that creates a pod.
        return json.dumps(self, default=vars, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> JobInput:
        """Drops unknown keys, so that an older bundle can read a newer operator's input."""
        job: JobInput = load_value(JobInput, json.loads(text))
        return job
