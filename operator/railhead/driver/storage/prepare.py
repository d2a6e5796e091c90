"""The run's storage before training: can it be written, and is there a checkpoint to go on from?

Reads Ray's snapshot only to tell the user where the run goes on; Ray reads it itself.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Optional, Union

from railhead.driver.reporting.progress import build_checkpoint_uri
from railhead.driver.storage.words import explain_error, is_unreachable

SNAPSHOT = "checkpoint_manager_snapshot.json"
TEXT_LIMIT = 600


CHECK_TIMEOUT = 90.0  # seconds; file systems try again by themselves, some for a quarter of an hour


class StorageRefused(Exception):
    """run.storagePath cannot be used as it is; the message names the field and holds the storage's own error."""


class StorageUnreachable(Exception):
    """run.storagePath did not answer; it may do so at the next attempt."""


@dataclass(frozen=True)
class RunStorage:
    """Attributes: where the run keeps its checkpoints, and the newest one found there."""

    run_uri: str
    latest_checkpoint: Optional[str]


def prepare_storage(storage_path: str, *, run_name: str) -> RunStorage:
    """Writes and removes a small file in the run's folder. Raises StorageRefused or StorageUnreachable."""
    run_uri = build_checkpoint_uri(storage_path, run_name)
    if storage_path.startswith("/"):
        check: Callable[[], str] = lambda: _check_path(run_uri)  # noqa: E731
    else:
        check = lambda: _check_uri(storage_path, run_name)  # noqa: E731
    try:
        snapshot = _run_bounded(check)
    except TimeoutError:
        told = f"run.storagePath {storage_path} cannot be reached: no answer within {CHECK_TIMEOUT:.0f} s"
        raise StorageUnreachable(told) from None
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:TEXT_LIMIT]
        told = explain_error(storage_path, text, pyarrow=_find_pyarrow())
        raise (StorageUnreachable if is_unreachable(text) else StorageRefused)(told) from error
    name = find_latest(snapshot)
    return RunStorage(run_uri, build_checkpoint_uri(run_uri, name) if name else None)


def _run_bounded(check: Callable[[], str]) -> str:
    """Raises TimeoutError; a thread that hangs in a file system ends with the process."""
    results: queue.SimpleQueue[Union[str, Exception]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(check())
        except Exception as error:
            results.put(error)

    threading.Thread(target=run, name="railhead-storage", daemon=True).start()
    try:
        result = results.get(timeout=CHECK_TIMEOUT)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result


def _find_pyarrow() -> str:
    try:
        return metadata.version("pyarrow")
    except metadata.PackageNotFoundError:
        return "(none)"


def _check_path(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    probe = Path(folder, f".railhead-write-check-{os.getpid()}")
    probe.write_text("")
    probe.unlink()
    try:
        return Path(folder, SNAPSHOT).read_text()
    except FileNotFoundError:
        return ""


def _check_uri(storage_path: str, run_name: str) -> str:
    """By the very class that Ray Train writes with: it leaves its marker file in the folder."""
    from ray.train.v2._internal.execution.storage import StorageContext

    context = StorageContext(storage_path=storage_path, experiment_dir_name=run_name)
    try:
        with context.storage_filesystem.open_input_stream(context.checkpoint_manager_snapshot_path) as stream:
            return str(stream.read().decode())
    except FileNotFoundError:
        return ""


def find_latest(snapshot: str) -> Optional[str]:
    """The folder name of the latest checkpoint; an unreadable snapshot is Ray's to refuse."""
    try:
        latest: Any = json.loads(snapshot)["latest_checkpoint_result"]
        return str(latest["checkpoint_dir_name"]) if latest else None
    except (ValueError, KeyError, TypeError):
        return None
