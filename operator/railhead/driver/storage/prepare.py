"""The run's storage before training: can it be written, and is there a checkpoint to resume from?

Reads Ray's snapshot only to report where the run resumes; `acquire_run` decides it, behind the fence.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from railhead.driver.reporting.progress import build_checkpoint_uri
from railhead.driver.storage.call import call_storage
from railhead.driver.storage.snapshot import FILE, SnapshotUnreadable, parse_snapshot

PROBE = ".railhead-write-check-"
PROBE_BYTES = 4096  # a full disk takes an empty file


@dataclass(frozen=True)
class RunStorage:
    """Attributes: where the run keeps its checkpoints, and the newest one found there."""

    run_uri: str
    latest_checkpoint: Optional[str]


def prepare_storage(storage_path: str, *, run_name: str, is_known: bool = False) -> RunStorage:
    """Writes and removes a small file in the run's folder. Raises JobRefused or Unreachable.

    `is_known`: the job has checkpoints there.
    """
    run_uri = build_checkpoint_uri(storage_path, run_name)
    if storage_path.startswith("/"):
        check: Callable[[], str] = lambda: _check_path(run_uri)  # noqa: E731
    else:
        check = lambda: _check_uri(storage_path, run_name)  # noqa: E731
    snapshot = call_storage(storage_path, check, is_known=is_known)
    name = find_latest(snapshot)
    return RunStorage(run_uri, build_checkpoint_uri(run_uri, name) if name else None)


def _check_path(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    probe = Path(folder, f"{PROBE}{os.getpid()}")
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)
    try:
        return Path(folder, FILE).read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _check_uri(storage_path: str, run_name: str) -> str:
    """Uses the very class that Ray Train writes with: it leaves its marker file in the folder."""
    from ray.train.v2._internal.execution.storage import StorageContext

    context = StorageContext(storage_path=storage_path, experiment_dir_name=run_name)
    try:
        with context.storage_filesystem.open_input_stream(context.checkpoint_manager_snapshot_path) as stream:
            return str(stream.read().decode(errors="replace"))
    except FileNotFoundError:
        return ""


def find_latest(snapshot: str) -> Optional[str]:
    """The folder name of the latest checkpoint; `acquire_run` repairs an unreadable snapshot, behind the fence."""
    try:
        return parse_snapshot(snapshot).latest
    except SnapshotUnreadable:
        return None
