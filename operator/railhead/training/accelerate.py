"""For loops with Hugging Face Accelerate: progress, and one more checkpoint before the run or a node ends.

Make one `TrainJob(accelerator)`, call its `load()` before the loop, and in the loop, on all ranks,
`if job.step(step, total=steps): job.save({"loss": loss})`.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from accelerate import Accelerator

from railhead import training
from railhead.training._checkpoints import Agreement, find_checkpoint, is_rank, report_folder

__all__ = ["TrainJob"]


class TrainJob:
    """What a loop that uses `accelerator` tells its TrainJob, and learns from it. Outside of one it does nothing."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._agreement = Agreement()

    def step(self, step: int, total: Optional[int] = None, tokens: Optional[int] = None) -> bool:
        """Whether to save a checkpoint now: True once for each notice, on the same call of all ranks.

        Every rank must call it equally often, once after each batch. Batches that only accumulate gradients do not
        count. The arguments are those of `railhead.training.progress`.
        """
        if not self._accelerator.sync_gradients:
            return False
        training.progress(step, total=total, tokens=tokens)
        return self._agreement.is_time_to_save()

    def save(self, metrics: Optional[Dict[str, Any]] = None) -> None:
        """Reports what `Accelerator.save_state` saves as a checkpoint; every rank must call it."""
        if is_rank():
            report_folder(self._accelerator.save_state, metrics)

    def load(self) -> bool:
        """Loads the run's last checkpoint by `Accelerator.load_state`, and returns whether there is one.

        Every rank must call it, after `Accelerator.prepare`.
        """
        checkpoint = find_checkpoint()
        if checkpoint is None:
            return False
        with checkpoint.as_directory() as folder:
            self._accelerator.load_state(folder)
        return True
