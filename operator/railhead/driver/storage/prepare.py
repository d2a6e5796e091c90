"""The run's storage before training: can it be written?"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Optional

from railhead.driver.reporting.progress import build_checkpoint_uri
from railhead.driver.reporting.spool import Spool
from railhead.driver.storage.call import call_storage

PROBE = ".railhead-write-check-"
PROBE_BYTES = 4096  # a full disk takes an empty file


def prepare_storage(storage_path: str, *, run_name: str, is_known: bool = False, spool: Optional[Spool] = None) -> str:
    """The URI of the run's folder, after writing and removing a small file there. Raises JobRefused or Unreachable.

    `is_known`: the job has checkpoints there. `spool`: as in `call_storage`.
    """
    run_uri = build_checkpoint_uri(storage_path, run_name)
    check = functools.partial(_check_uri, storage_path, run_name)
    if storage_path.startswith("/"):
        check = functools.partial(_check_path, run_uri)
    call_storage(storage_path, check, is_known=is_known, spool=spool)
    return run_uri


def _check_path(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    probe = Path(folder, f"{PROBE}{os.getpid()}")
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def _check_uri(storage_path: str, run_name: str) -> None:
    """Uses the very class that Ray Train writes with: it leaves its marker file in the folder."""
    from ray.train.v2._internal.execution.storage import StorageContext

    StorageContext(storage_path=storage_path, experiment_dir_name=run_name)
