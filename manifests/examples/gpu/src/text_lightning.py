"""A small language model with PyTorch Lightning in bf16 on GPUs, and with gloo where there are none.

Each worker has the whole model (DDP). Ray Train's callback reports after each epoch and commits Lightning's own
checkpoint, from which a job with another number of workers can resume. The text is the help that comes with Python,
half a megabyte of English as bytes, so nothing is downloaded.
"""

import os
import pydoc_data.topics

import lightning.pytorch as pl
import ray.train
import torch
from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, RayTrainReportCallback, prepare_trainer
from torch import nn
from torch.utils.data import DataLoader

from railhead.training.lightning import TrainJobCallback

HELD_OUT = 8192  # bytes at the end of the text


class Model(pl.LightningModule):
    def __init__(self, width, layers, heads, context, lr):
        super().__init__()
        self.lr = lr
        self.bytes, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        block = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 256)

    def forward(self, ids):
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ids.device)
        x = self.bytes(ids) + self.positions(torch.arange(length, device=ids.device))
        return self.out(self.blocks(x, mask=mask, is_causal=True))

    def training_step(self, batch):
        loss = self.measure_loss(batch)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch):
        self.log("held_out_loss", self.measure_loss(batch), sync_dist=True)

    def measure_loss(self, sequences):
        """How many nats the next byte costs."""
        predicted = self(sequences[:, :-1])
        return nn.functional.cross_entropy(predicted.float().flatten(0, 1), sequences[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)

    def on_train_epoch_start(self):
        rank, world = self.global_rank, self.trainer.world_size
        print(f"epoch {self.current_epoch} rank {rank} of {world} on {self.device}", flush=True)


def train_func(config):
    """config: epochs, steps (of an epoch), batch (per worker), and the arguments of Model."""
    pl.seed_everything(0)
    train_set, held_out = load_text(config["context"])
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        limit_train_batches=config["steps"],
        accelerator="auto",
        devices="auto",
        precision="bf16-mixed",  # multiplies in bf16; weights, gradients and the optimizer's state are in fp32
        strategy=RayDDPStrategy(),
        plugins=[RayLightningEnvironment()],
        callbacks=[RayTrainReportCallback(), TrainJobCallback()],
        enable_checkpointing=False,  # the callback does that
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer = prepare_trainer(trainer)
    is_on_gpu = torch.cuda.is_available()
    # The text is in memory. With num_workers more processes read it, whose batches go through /dev/shm.
    loaders = [
        DataLoader(rows, batch_size=config["batch"], shuffle=rows is train_set, pin_memory=is_on_gpu)
        for rows in (train_set, held_out)
    ]
    model = Model(*(config[name] for name in ("width", "layers", "heads", "context", "lr")))
    trainer.fit(model, *loaders, ckpt_path=fetch_checkpoint())


def load_text(length):
    """Sequences to learn from and held-out ones, the same on every worker; one byte longer, for the last prediction."""
    text = "\n".join(pydoc_data.topics.topics.values()).encode()
    rows = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unfold(0, length + 1, length)
    held_out = HELD_OUT // length
    return rows[:-held_out], rows[-held_out:]


def fetch_checkpoint():
    """Returns a local copy of the run's last checkpoint, or None."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    return os.path.join(checkpoint.to_directory(), RayTrainReportCallback.CHECKPOINT_NAME)
