"""The run's checkpoints: a folder that all ranks write to becomes one, and a resumed run begins with the last."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

if TYPE_CHECKING:
    from ray.train import Checkpoint


def is_rank() -> bool:
    """Whether this process is a rank of a Ray Train run, in a TrainJob or not; elsewhere nothing takes a report."""
    try:
        import ray.train

        ray.train.get_context()
    except (ImportError, RuntimeError):
        return False
    return True


def find_checkpoint() -> Optional[Checkpoint]:
    """The run's last checkpoint; None if it has none, and outside of Ray Train."""
    if not is_rank():
        return None
    import ray.train

    return ray.train.get_checkpoint()


def report_folder(write: Callable[[str], object], metrics: Optional[Dict[str, Any]]) -> None:
    """Reports what `write(folder)` writes on each rank as one checkpoint; every rank must call it."""
    import ray.train

    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        write(folder)
        made = ray.train.Checkpoint.from_directory(folder) if os.listdir(folder) else None
        ray.train.report(metrics or {}, checkpoint=made)
