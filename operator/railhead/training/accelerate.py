"""For loops with Hugging Face Accelerate: progress, checkpoints that choose their time, and one more before the run or
a node ends.

Make one `TrainJob(accelerator)`, call its `load()` before the loop, and in the loop, on all ranks,
`if job.step(step, total=steps): job.save({"loss": loss})`.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Literal, Optional, Union

from accelerate import Accelerator

from railhead import training
from railhead.training._checkpoints import Agreement, find_checkpoint, is_rank, report_folder

__all__ = ["TrainJob"]


class TrainJob:
    """What a loop that uses `accelerator` tells its TrainJob, and learns from it. Outside of one it does nothing.

    `every`: also saves every so many seconds, or with "auto" as often as costs least, so that training waits in at
    most 1 % of its time; all ranks agree on it. None: only before the run or a node ends.
    """

    def __init__(self, accelerator: Accelerator, every: Optional[Union[Literal["auto"], float]] = None) -> None:
        """Raises ValueError."""
        self._accelerator = accelerator
        self._agreement = Agreement(every)

    def step(self, step: int, total: Optional[int] = None, tokens: Optional[int] = None) -> bool:
        """Returns whether to save a checkpoint now, on the same call of all ranks: when one is due, and once for each
        notice.

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
            began = time.monotonic()
            report_folder(self._accelerator.save_state, metrics)
            self._agreement.note_save(time.monotonic() - began)

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
