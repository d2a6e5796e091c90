"""A folder that all ranks write to becomes a checkpoint of the run."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable, Dict, Optional


def is_rank() -> bool:
    """Whether this process is a rank of a Ray Train run, in a TrainJob or not; elsewhere nothing takes a report."""
    try:
        import ray.train

        ray.train.get_context()
    except (ImportError, RuntimeError):
        return False
    return True


def report_folder(write: Callable[[str], object], metrics: Optional[Dict[str, Any]]) -> None:
    """Reports what `write(folder)` writes on each rank as one checkpoint; every rank must call it."""
    import ray.train

    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        write(folder)
        made = ray.train.Checkpoint.from_directory(folder) if os.listdir(folder) else None
        ray.train.report(metrics or {}, checkpoint=made)
