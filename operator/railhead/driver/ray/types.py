"""The parts of Ray's objects that the driver uses, as protocols; tests/ray/test_contract.py checks Ray's side."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Protocol, Sequence, Tuple, Union

Metrics = Mapping[str, Any]  # whatever the user has reported
FileSystem = Any  # pyarrow's, which has no types
FileInfo = Any  # likewise
NodeInfo = Mapping[str, Any]  # an entry of `ray.nodes()`


class Metadata(Protocol):
    """A rank's process, and where it runs: by Ray's id of its node, and the address and name of its pod."""

    node_id: str
    node_ip: str
    hostname: str
    pid: int


class RayWorker(Protocol):
    """A rank's actor, as its controller holds it."""

    metadata: Metadata
    actor: Any  # the methods of its class, each with `remote`

    def execute_async(self, function: Callable[..., object], /, *arguments: object) -> object: ...


class ExecutionGroup(Protocol):
    """A worker group, or the part of one that Ray replaces."""

    def get_workers(self) -> List[RayWorker]: ...
    def execute_single_async(self, rank: int, function: Callable[..., object], /, *arguments: object) -> object: ...


class Storage(Protocol):
    """Ray's StorageContext: a run's folder."""

    storage_filesystem: FileSystem
    experiment_fs_path: str

    def extract_checkpoint_dir_name_from_path(self, path: str) -> str: ...
    def make_default_checkpoint_dir_name(self) -> str: ...


class WorkerGroup(ExecutionGroup, Protocol):
    """All ranks; `_worker_group_state` is None when Ray is to free what the group holds."""

    _worker_group_state: object
    _storage_context: Storage
    _callbacks: Sequence[object]


class GroupContext(Protocol):
    """What a group is started with."""

    num_workers: int


class WorkerStatus(Protocol):
    """A rank's answer to a poll; an error that is set here is an error of the rank."""

    running: bool
    error: Optional[BaseException]


class GroupStatus(Protocol):
    """All ranks' answers to a poll."""

    worker_statuses: Mapping[int, WorkerStatus]
    finished: bool


class RayCheckpoint(Protocol):
    """A folder of the run, or elsewhere."""

    path: str
    filesystem: FileSystem


class TrainingReport(Protocol):
    """One report of all ranks."""

    checkpoint: Optional[RayCheckpoint]
    metrics: Metrics


class CheckpointResult(Protocol):
    """A checkpoint that the manager keeps."""

    checkpoint: RayCheckpoint
    metrics: Optional[Metrics]


class RayCheckpointConfig(Protocol):
    """How checkpoints are ranked."""

    checkpoint_score_attribute: Optional[str]
    checkpoint_score_order: Optional[str]


class CheckpointManager(Protocol):
    """Ray's manager of a run's checkpoints; the driver replaces three of its methods."""

    _checkpoint_config: RayCheckpointConfig
    _checkpoint_results: List[CheckpointResult]
    _storage_context: Storage
    _get_checkpoint_score: Callable[[CheckpointResult], Tuple[bool, float]]
    _save_state_and_delete_old_checkpoints: Callable[[], None]
    _write_state_to_storage: Callable[[], None]

    latest_checkpoint_result: Optional[CheckpointResult]


class TrainContext(Protocol):
    """A rank's context: what `ray.train`'s functions use on a worker."""

    storage_context: Storage
    report_call_index: int

    def get_world_rank(self) -> int: ...


class RayFailureConfig(Protocol):
    """The run's own limit."""

    max_failures: int


class RunConfig(Protocol):
    """A run's name, storage and callbacks, as its trainer has them."""

    name: str
    storage_path: str
    storage_filesystem: Optional[FileSystem]
    failure_config: RayFailureConfig
    callbacks: Optional[List[object]]


class ScalingConfig(Protocol):
    """How many workers a trainer starts, and what each of them needs; an elastic one has a minimum and a maximum."""

    num_workers: Union[int, Tuple[int, int]]
    use_gpu: bool
    resources_per_worker: Optional[Mapping[str, float]]


class Trainer(Protocol):
    """One of Ray Train's trainers; without workers it runs in local mode, in this very process."""

    run_config: RunConfig
    scaling_config: ScalingConfig
    datasets: Mapping[str, object]
    train_loop_per_worker: Callable[..., object]
    running_in_local_mode: bool

    def fit(self) -> object: ...
