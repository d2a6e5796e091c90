"""The names of Ray's internals that the driver needs, in one table; checked before the job's training starts.

A Ray that lacks a required one would train without its fence, its progress or its failure policy, so the job ends
as Configuration, with every missing name. Without an optional one the driver does as the table says. Each row names the
issue or pull request of Ray that would make it superfluous.
tests/ray/test_contract.py checks the table, and more, with each Ray version.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from typing import Any

from railhead.driver.container.packages import Version, find_version, parse_version, write_version
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.log import log
from railhead.driver.ray.supported_versions import TESTED

_EXECUTION = "ray.train.v2._internal.execution"

NONE = "none"
_AGENT_PORTS = (
    "ray-project/ray#65983: [Core] Raylet crashes on slow dashboard agent startup due to a hard-coded 15s port-file "
    "timeout"
)
_CLIENT_SERVER = "ray-project/ray#25029: [Core]Disable ray-client-server by default."
_NODE_DEATH = "ray-project/ray#45632: [Core] Allow manual marking of node death via CLI and API"
_NODE_LABEL = "ray-project/ray#54940: Replace `NodeAffinitySchedulingStrategy` when soft=False with Label Selector API"
# Both: the first one for what an interrupted upload leaves, the second one for a storage that fails.
_UPLOADS = (
    "ray-project/ray#41700: [Train] Invalid checkpoints can result from some workers failing before finishing their "
    "checkpointing; "
    "ray-project/ray#47939: [train] Soft-failure mode / retries for errors raised during checkpoint uploading via "
    "`train.report`"
)

_NO_NOTICE = "the ranks are not notified before the run ends"
_UNWATCHED = (
    "folders of unfinished uploads stay, checkpoints are not compared with what was reported, and a storage that fails "
    "counts as an error of the training function"
)


@dataclass(frozen=True)
class Hook:
    """A name that must exist in a module of Ray; its last part may be an attribute that a class sets in its `__init__`.

    `upstream`: the issue or pull request of Ray that would make it superfluous, with its title, or NONE.
    `without`: what follows if an optional one is missing; `since`: the Ray that has it first.
    """

    module: str
    name: str
    upstream: str
    without: str = ""
    since: Version = (0, 0)

    @property
    def is_there(self) -> bool:
        owner_name, _, last = self.name.rpartition(".")
        try:
            owner = pkgutil.resolve_name(f"{self.module}:{owner_name}")
        except (ImportError, AttributeError):
            return False
        return hasattr(owner, last) or last in _list_attributes(owner)

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


REQUIRED = (
    Hook("ray.train.v2.api.data_parallel_trainer", "DataParallelTrainer.fit", NONE),
    Hook("ray.train.v2.api.data_parallel_trainer", "DataParallelTrainer._initialize_and_run_controller", NONE),
    Hook(f"{_EXECUTION}.failure_handling", "FailurePolicy.make_decision", NONE),
    Hook(f"{_EXECUTION}.failure_handling", "FailureDecision.RETRY", NONE),
    Hook(f"{_EXECUTION}.failure_handling", "FailureDecision.RAISE", NONE),
    Hook("ray.train.v2._internal.constants", "RAY_TRAIN_CALLBACKS_ENV_VAR", NONE),
    Hook(f"{_EXECUTION}.callback", "ControllerCallback.after_controller_state_update", NONE),
    Hook(f"{_EXECUTION}.callback", "WorkerGroupCallback.before_init_train_context", NONE),
    Hook(f"{_EXECUTION}.callback", "WorkerGroupCallback.after_worker_group_start", NONE),
    Hook(f"{_EXECUTION}.callback", "WorkerGroupCallback.after_worker_group_poll_status", NONE),
    Hook(f"{_EXECUTION}.callback", "ReportCallback.after_report", NONE),
    Hook(
        f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager._save_state_and_delete_old_checkpoints", NONE
    ),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager._write_state_to_storage", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager._checkpoint_config", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager._checkpoint_results", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager._get_checkpoint_score", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager._storage_context", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "CheckpointManager.latest_checkpoint_result", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "_CheckpointManagerState", NONE),
    Hook(f"{_EXECUTION}.checkpoint.checkpoint_manager", "delete_fs_path", NONE),
    Hook(f"{_EXECUTION}.context", "get_train_context", NONE),
    Hook(f"{_EXECUTION}.context", "TrainContext.checkpoint", NONE),
    Hook(f"{_EXECUTION}.storage", "StorageContext.extract_checkpoint_dir_name_from_path", NONE),
    Hook(f"{_EXECUTION}.storage", "get_fs_and_path", NONE),
    Hook(f"{_EXECUTION}.worker_group", "WorkerGroup.execute_single_async", NONE),
    Hook(f"{_EXECUTION}.worker_group", "WorkerGroup.get_workers", NONE),
    Hook(f"{_EXECUTION}.worker_group", "WorkerGroup._callbacks", NONE),
    Hook(f"{_EXECUTION}.worker_group", "WorkerGroup._storage_context", NONE),
    Hook(f"{_EXECUTION}.worker_group", "WorkerGroup._worker_group_state", NONE),
    Hook(f"{_EXECUTION}.worker_group", "WorkerStatus.error", NONE),
)
ELASTIC = (Hook(f"{_EXECUTION}.scaling_policy", "ElasticScalingPolicy", NONE),)
LARGE = (
    Hook(f"{_EXECUTION}.checkpoint.sync_actor", "SynchronizationActor", NONE),
    Hook(f"{_EXECUTION}.worker_group.worker_group", "SynchronizationActor", NONE),
)
OPTIONAL = (
    Hook(
        f"{_EXECUTION}.train_fn_utils", "DistributedTrainFnUtils.get_preemption_info", NONE, _NO_NOTICE, since=(2, 58)
    ),
    Hook("ray.train.v2.api.preemption", "PreemptionInfo", NONE, _NO_NOTICE, since=(2, 58)),
    Hook(f"{_EXECUTION}.context", "TrainContext.report", _UPLOADS, _UNWATCHED),
    Hook(f"{_EXECUTION}.context", "TrainContext._upload_checkpoint", _UPLOADS, _UNWATCHED),
    Hook(f"{_EXECUTION}.storage", "StorageContext.persist_current_checkpoint", _UPLOADS, _UNWATCHED),
    Hook(
        "ray._private.node",
        "Node.start_ray_client_server",
        _CLIENT_SERVER,
        "each node starts a server that no job uses",
    ),
    Hook("ray._private.node", "Node.start_api_server", NONE, "the head starts a server that no job uses"),
    Hook(
        "ray._private.node",
        "Node.kill_all_processes",
        NONE,
        "when a process of Ray's head dies, the driver may end before it can report that",
    ),
    Hook("ray._private.services", "start_api_server", NONE, "spec.ray.dashboard has no effect"),
    Hook("ray._private.services", "start_raylet", _AGENT_PORTS, "on a busy machine a node may not join"),
    Hook("ray._raylet", "GcsClient", NONE, "spec.logs.forward Rank0 forwards the lines of all ranks"),
    Hook(
        "ray.core.generated.gcs_service_pb2",
        "UnregisterNodeRequest",
        _NODE_DEATH,
        "only Ray's own health check sees a lost node",
    ),
    Hook(
        "ray.util.scheduling_strategies",
        "NodeAffinitySchedulingStrategy",
        _NODE_LABEL,
        "no message says why a rank died",
    ),
)


def _list_attributes(owner: Any) -> set[str]:
    """Returns what a class and its bases set in their `__init__`; a few names too many do no harm."""
    found = [getattr(each.__init__, "__code__", None) for each in getattr(owner, "__mro__", ())]
    return {name for code in found if code for name in code.co_names}


def check_hooks(*, is_elastic: bool = False, is_large: bool = False) -> None:
    """Prints a line for each optional hook that is missing. Raises JobRefused with all required ones that are.

    `is_large`: the group has too many ranks for Ray's own barriers (`railhead_callback.Barriers`).
    """
    version = find_version()
    found = parse_version(version)
    for hook in OPTIONAL:
        if (found or TESTED) >= hook.since and not hook.is_there:
            log(f"Ray {version} has no {hook}: {hook.without}")
    required = (*REQUIRED, *(ELASTIC if is_elastic else ()), *(LARGE if is_large else ()))
    missing = [str(hook) for hook in required if not hook.is_there]
    if missing:
        message = (
            f"spec.image: Ray {version} has no {', '.join(missing)}; use a Ray version that Railhead is tested with, "
            f"up to {write_version(TESTED)}"
        )
        raise JobRefused("RayTrainNotUsable", message)
