"""A run's storage as Ray Train sees it, and the checkpoint manager, which commits, ranks and deletes there.

The manager is one of the worker group's callbacks, and only it knows the checkpoints of earlier attempts, which of
them were deleted, and metrics that a validation added later. A commit is its `_write_state_to_storage`, and its
deletions go through its module's `delete_fs_path`, right after.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Optional, Sequence, Tuple

from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.exception_text import read_text
from railhead.driver.ray.types import (
    CheckpointManager,
    CheckpointResult,
    FileSystem,
    Metrics,
    RayCheckpoint,
    RunConfig,
    WorkerGroup,
)

_NO_MANAGER = (
    "spec.image: this Ray keeps its CheckpointManager where Railhead does not find it, so that nothing would keep an "
    "earlier head of this job from committing; use a Ray version that Railhead is tested with"
)
Write = Callable[[], None]
Delete = Callable[[str], None]
_GUARDED = "_railhead_is_guarded"
_ORIGINAL = "_railhead_original"


@dataclass(frozen=True)
class Ranking:
    """The checkpoints that Ray keeps, with what ranks them.

    Attributes:
        attribute: CheckpointConfig's checkpoint_score_attribute.
        order: "min" or "max".
        kept: folder name and metrics of each checkpoint; on equal scores the later checkpoint comes later.
    """

    attribute: str
    order: str
    kept: Tuple[Tuple[str, Metrics], ...]


def find_manager(worker_group: WorkerGroup) -> CheckpointManager:
    """Returns the run's CheckpointManager. Raises JobRefused when this Ray keeps it elsewhere."""
    from ray.train.v2._internal.execution.checkpoint import checkpoint_manager

    for each in getattr(worker_group, "_callbacks", ()):
        if isinstance(each, checkpoint_manager.CheckpointManager):
            manager: CheckpointManager = each
            return manager
    raise JobRefused("RayTrainNotUsable", _NO_MANAGER)


def guard(
    manager: CheckpointManager, *, before: Write, commit: Callable[[Write], None], delete: Callable[[Delete, str], None]
) -> None:
    """Hands each of Ray's commits to `commit` and each of its deletions to `delete`; idempotent.

    `before` is called when a checkpoint is registered. What `commit` raises propagates out of Ray's commit.
    """
    if getattr(manager, _GUARDED, False):
        return
    save = manager._save_state_and_delete_old_checkpoints
    write = manager._write_state_to_storage

    def save_state_and_delete_old_checkpoints() -> None:
        before()
        save()

    manager._save_state_and_delete_old_checkpoints = save_state_and_delete_old_checkpoints
    manager._write_state_to_storage = partial(commit, write)
    module: Any = sys.modules[type(manager).__module__]
    original = getattr(module.delete_fs_path, _ORIGINAL, module.delete_fs_path)

    def delete_fs_path(fs: FileSystem, fs_path: str) -> None:
        delete(lambda path: original(fs=fs, fs_path=path), fs_path)

    setattr(delete_fs_path, _ORIGINAL, original)
    module.delete_fs_path = delete_fs_path
    setattr(manager, _GUARDED, True)


def repair_scores(manager: CheckpointManager, find_score: Callable[[Metrics, str], Optional[float]]) -> None:
    """Makes a checkpoint without a score rank below all others, as one with a NaN does.

    Ray by itself treats a missing metric as the very best with order "min", and so deletes good
    checkpoints in its favour. It also raises in its controller on a string, and on a NaN that it read
    back from its own snapshot, where it is a null: the run would fail at each commit after a restart.
    """
    config = manager._checkpoint_config
    attribute = config.checkpoint_score_attribute
    if not attribute:
        return
    sign = -1.0 if config.checkpoint_score_order == "min" else 1.0

    def compute_score(result: CheckpointResult) -> Tuple[bool, float]:
        score = find_score(result.metrics or {}, attribute)
        if score is None:
            return (False, float("-inf"))
        return (True, sign * score)

    manager._get_checkpoint_score = compute_score


def name_checkpoint(manager: CheckpointManager, checkpoint: RayCheckpoint) -> str:
    """Returns the checkpoint's folder, relative to the run's; a user may choose a name with slashes."""
    return str(manager._storage_context.extract_checkpoint_dir_name_from_path(checkpoint.path))


def list_names(manager: CheckpointManager) -> list[str]:
    """Returns the names of all checkpoints that the manager keeps."""
    return [name_checkpoint(manager, each.checkpoint) for each in manager._checkpoint_results]


def list_paths(manager: CheckpointManager) -> list[str]:
    """Returns the paths of all checkpoints that the manager keeps."""
    return [each.checkpoint.path for each in manager._checkpoint_results]


def drop_repeated(manager: CheckpointManager) -> str:
    """Forgets older checkpoints in the newest one's folder; returns its name if there were any, else an empty string.

    A user may repeat a `checkpoint_dir_name`. Ray would count the folder twice, and delete it with the older one.
    """
    latest = manager.latest_checkpoint_result
    results = manager._checkpoint_results
    if latest is None:
        return ""
    older = [each for each in results if each is not latest and each.checkpoint.path == latest.checkpoint.path]
    for each in older:
        results.remove(each)
        # Ray keeps the number of its report and its validation beside it.
        for known in vars(manager).values():
            if isinstance(known, dict):
                known.pop(each.checkpoint, None)
            elif isinstance(known, set):
                known.discard(each.checkpoint)
    if older:
        return name_checkpoint(manager, latest.checkpoint)
    return ""


def find_latest(manager: CheckpointManager) -> Optional[Tuple[str, Metrics]]:
    """Returns name and metrics of the newest checkpoint, including an earlier attempt's; None when there is none."""
    latest = manager.latest_checkpoint_result
    if latest:
        return (name_checkpoint(manager, latest.checkpoint), latest.metrics or {})
    return None


def read_ranking(manager: CheckpointManager) -> Optional[Ranking]:
    """Returns what the manager keeps at the moment; None when the run has no score attribute."""
    config = manager._checkpoint_config
    if not config.checkpoint_score_attribute:
        return None
    kept = tuple(
        (name_checkpoint(manager, each.checkpoint), each.metrics or {}) for each in manager._checkpoint_results
    )
    return Ranking(config.checkpoint_score_attribute, config.checkpoint_score_order or "max", kept)


def choose_file_system(run_config: RunConfig) -> tuple[FileSystem, str]:
    """Returns the file system of a RunConfig and the path there of its storage, in the same way as fit()."""
    from ray.train.v2._internal.execution.storage import get_fs_and_path

    filesystem, path = get_fs_and_path(run_config.storage_path, run_config.storage_filesystem)
    return filesystem, str(path)


def write_marker(storage_path: str, run_name: str) -> None:
    """Writes by the very class that Ray Train writes with, which leaves its marker file in the run's folder."""
    from ray.train.v2._internal.execution.storage import StorageContext

    StorageContext(storage_path=storage_path, experiment_dir_name=run_name)


def list_fields() -> frozenset[str]:
    """Returns the keys of a snapshot as the installed Ray reads and writes it."""
    from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import _CheckpointManagerState as State

    return frozenset(getattr(State, "model_fields", None) or State.__fields__)


def drop_metrics(
    manager: CheckpointManager, make_writable: Callable[[Metrics], Tuple[Metrics, Sequence[str]]]
) -> list[str]:
    """Replaces the metrics of all checkpoints by what `make_writable` returns first; returns what it says of others."""
    dropped: list[str] = []
    for result in manager._checkpoint_results:
        metrics, problems = make_writable(result.metrics or {})
        result.metrics = metrics
        dropped += problems
    return dropped


def find_write_error(value: object) -> str:
    """Returns why Ray cannot write this value of a metric into its snapshot; empty if it can, or in an unknown Ray."""
    try:
        from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import _TrainingResultState as State
    except ImportError:
        return ""
    try:
        state = State(checkpoint_dir_name="any", metrics={"any": value})
        # Pydantic 2, and 1.
        write = getattr(state, "model_dump_json", None) or state.json
        write()
    except Exception as error:
        return " ".join(read_text(error).split())[:200]
    return ""
