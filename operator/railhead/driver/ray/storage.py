"""Ray Train's own view of a run's storage, read before fit() in the same way as fit() reads it."""

from __future__ import annotations

from typing import Any


def find_file_system(run_config: Any) -> tuple[Any, str]:
    """Returns the file system of a RunConfig and the path there of its storage."""
    from ray.train.v2._internal.execution.storage import get_fs_and_path

    filesystem, path = get_fs_and_path(run_config.storage_path, run_config.storage_filesystem)
    return filesystem, str(path)


def write_marker(storage_path: str, run_name: str) -> None:
    """Uses the very class that Ray Train writes with: it leaves its marker file in the run's folder."""
    from ray.train.v2._internal.execution.storage import StorageContext

    StorageContext(storage_path=storage_path, experiment_dir_name=run_name)


def find_fields() -> frozenset[str]:
    """Returns the keys of a snapshot as the installed Ray reads and writes it."""
    from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import _CheckpointManagerState as State

    return frozenset(getattr(State, "model_fields", None) or State.__fields__)
