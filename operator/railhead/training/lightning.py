"""For PyTorch Lightning: progress after each step, the time of each training_step under DDP, which finds slow ranks,
checkpoints that choose their time, and one more before the run or a node ends.

Pass it as `Trainer(callbacks=[RayTrainReportCallback(), TrainJobCallback()])`.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Literal, Optional, Union

from railhead import training
from railhead.contract.callbacks import ignore
from railhead.training._checkpoints import Agreement, report_folder
from railhead.training._sections import mark_forward_passes

try:
    import lightning.pytorch as pl
except ModuleNotFoundError:
    import pytorch_lightning as pl  # type: ignore[no-redef]

__all__ = ["TrainJobCallback"]

CHECKPOINT_NAME = "checkpoint.ckpt"  # as Ray Train's RayTrainReportCallback calls it


class TrainJobCallback(pl.Callback):
    """Saves and reports a checkpoint on the same step of all ranks when one is due, and once for each new notice.

    `every`: also saves every so many seconds, or with "auto" as often as costs least, so that training waits in at
    most 1 % of its time. None: only before the run or a node ends.

    It has the file and the metrics of those that Ray Train's RayTrainReportCallback reports after each epoch, so your
    function resumes from both in the same way; override `save` if yours look different. Outside of Ray Train it
    saves nothing.
    """

    def __init__(self, every: Optional[Union[Literal["auto"], float]] = None) -> None:
        """Raises ValueError."""
        self._agreement = Agreement(every)
        self._step = 0
        self._total: Optional[int] = None
        self._end_marks: Callable[[], None] = ignore

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        total = trainer.estimated_stepping_batches
        self._step = trainer.global_step
        self._total = int(total) if 0 < total < float("inf") else None
        # A module with a compiler context was compiled by torch.compile, and gets no marks.
        if getattr(pl_module, "_compiler_ctx", None) is None:
            self._end_marks = mark_forward_passes(pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._end_marks()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any, **kwargs: Any) -> None:
        # Gradients are accumulated, and no checkpoint contains them.
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        training.progress(self._step, total=self._total)
        if self._agreement.is_time_to_save():
            began = time.monotonic()
            self.save(trainer, pl_module)
            self._agreement.note_save(time.monotonic() - began)

    def on_validation_batch_end(self, trainer: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        # A long evaluation is no hang.
        training.progress(trainer.global_step, total=self._total)

    def save(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reports a checkpoint of Lightning's with `trainer.callback_metrics`, the epoch and the step."""
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics.update(epoch=trainer.current_epoch, step=trainer.global_step)
        report_folder(lambda folder: trainer.save_checkpoint(os.path.join(folder, CHECKPOINT_NAME)), metrics)
