"""Checks that the run's storage can be written, before Ray is up."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.driver.ray.checkpoint_manager import write_marker
from railhead.driver.storage.storage_call import Warn, call_storage

PROBE = ".railhead-write-check-"
PROBE_BYTES = 4096  # a full disk takes an empty file


def prepare_storage(storage_path: str, *, run_name: str, is_known: bool = False, warn: Warn) -> str:
    """Returns the URI of the run's folder, after writing and removing a small file there.

    `is_known`: the job has checkpoints there. `warn`: as in `call_storage`. Raises JobRefused.
    """
    run_uri = build_checkpoint_uri(storage_path, run_name)
    check = functools.partial(write_marker, storage_path, run_name)
    if storage_path.startswith("/"):
        check = functools.partial(_check_path, run_uri)
    call_storage(storage_path, check, is_known=is_known, warn=warn)
    return run_uri


def _check_path(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    probe = Path(folder, f"{PROBE}{os.getpid()}")
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)
