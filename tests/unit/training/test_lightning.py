"""A notice that reaches one of two ranks makes both save a checkpoint of Lightning's on that step, and resume there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.training.ranks import Rank, record_progress, run_ranks

BATCHES, EPOCHS, ACCUMULATED = 8, 2, 2
STEPS = BATCHES * EPOCHS // ACCUMULATED


def train(rank: int, folder: str, notified_at: int, resume_from: str, every: float | None = None) -> Any:
    """The reports, and the steps of `progress` with their totals; the notice comes in the middle of an epoch."""
    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.plugins.environments import LightningEnvironment  # type: ignore[attr-defined]
    from torch.utils.data import DataLoader, TensorDataset

    from railhead.driver.rank.steps import read_beat
    from railhead.training.lightning import CHECKPOINT_NAME, TrainJobCallback

    me = Rank(folder, checkpoint=resume_from)
    progress = record_progress()

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any) -> torch.Tensor:
            if self.global_step + 1 == notified_at and rank == 1:
                me.notify(deadline=1_000, ranks=[0, 1])
            loss = self.layer(batch[0]).square().mean()
            self.log("loss", loss)
            return loss  # type: ignore[no-any-return]

        def validation_step(self, batch: Any) -> None:
            pass

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Environment(LightningEnvironment):
        """As Ray's RayLightningEnvironment answers."""

        creates_processes_externally = True

        def global_rank(self) -> int:
            return rank

        def world_size(self) -> int:
            return 2

        def set_global_rank(self, rank: int) -> None:
            pass

        def set_world_size(self, size: int) -> None:
            pass

    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accumulate_grad_batches=ACCUMULATED,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        plugins=[Environment()],
        callbacks=[TrainJobCallback(every)],
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        default_root_dir=folder,
    )
    data = DataLoader(TensorDataset(torch.ones(2 * BATCHES, 1)))
    held_out = DataLoader(TensorDataset(torch.ones(2, 1)))
    trainer.fit(Model(), data, held_out, ckpt_path=os.path.join(resume_from, CHECKPOINT_NAME) if resume_from else None)
    return me.finish_uploads(), progress, trainer.current_epoch, read_beat().sections


@pytest.mark.slow  # test_checkpoints has the decision, and test_transformers the same with a real Trainer
def test_a_notice_to_one_rank_makes_both_save_on_that_step(tmp_path: Path) -> None:
    (reports, progress, _, sections), other = run_ranks(2, train, tmp_path, str(tmp_path), 3, "")
    [[metrics, checkpoint]] = reports
    assert other[0] == [(metrics, "")], "the weights of DDP are the same on both: rank 0 alone saves them"
    assert (metrics["step"], metrics["epoch"], metrics.keys()) == (3, 0, {"loss", "step", "epoch"})
    assert progress == other[1] == [(step, STEPS) for step in (1, 2, 3, 4, 4, 5, 6, 7, 8, 8)], "4 and 8 are evaluated"
    assert sections == other[3] == BATCHES * EPOCHS, "training_step is called within DDP"
    for reports, progress, epochs, _ in run_ranks(2, train, tmp_path, str(tmp_path), 0, checkpoint):
        assert (reports, [step for step, _ in progress], epochs) == ([], [4, 4, 5, 6, 7, 8, 8], EPOCHS)


@pytest.mark.slow  # likewise
def test_saves_that_are_due_are_made_on_each_step(tmp_path: Path) -> None:
    """Each step is a look of the ranks at each other, and each look finds a save due."""
    (reports, *_), _ = run_ranks(2, train, tmp_path, str(tmp_path), 0, "", 1e-9)
    assert [metrics["step"] for metrics, _ in reports] == list(range(1, STEPS + 1))
