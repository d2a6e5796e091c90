"""Handwritten digits with PyTorch Lightning inside Ray Train's TorchTrainer.

The data is scikit-learn's bundled set of 1,797 images, so nothing is downloaded. Ray Train
gives Lightning its strategy and its environment; its callback reports after each epoch and
commits Lightning's own checkpoint. When the run starts again, Lightning resumes from it. Railhead's
callback shows the progress in between and saves once more before the run or a node ends.
"""

import os
import sys

import lightning.pytorch as pl
import ray.train
import torch
from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, RayTrainReportCallback, prepare_trainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from railhead.training.lightning import TrainJobCallback


class Classifier(pl.LightningModule):
    def __init__(self, lr=0.003):
        super().__init__()
        self.lr = lr
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images):
        return self.layers(images)

    def on_train_epoch_start(self):
        print(f"epoch {self.current_epoch} rank {self.global_rank}", flush=True)

    def training_step(self, batch):
        images, labels = batch
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch):
        images, labels = batch
        self.log("accuracy", (self(images).argmax(dim=1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def train_func(config):
    """config: epochs, lr, batch_size (per worker)."""
    torch.set_num_threads(1)  # a model this small gains nothing from more
    pl.seed_everything(0)
    train_set, held_out = split_digits()
    trainer = pl.Trainer(
        max_epochs=config.get("epochs", 10),
        accelerator="auto",
        devices="auto",
        strategy=RayDDPStrategy(),
        plugins=[RayLightningEnvironment()],
        callbacks=[RayTrainReportCallback(), TrainJobCallback()],
        enable_checkpointing=False,  # the callback does that
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer = prepare_trainer(trainer)
    trainer.fit(
        Classifier(config.get("lr", 0.003)),
        DataLoader(train_set, batch_size=config.get("batch_size", 32), shuffle=True),
        DataLoader(held_out, batch_size=len(held_out)),
        ckpt_path=fetch_checkpoint(),
    )


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    held_out, train = order[:360], order[360:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[held_out], labels[held_out])


def fetch_checkpoint():
    """A local copy of the run's last checkpoint as Lightning wants it, or None."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    return os.path.join(checkpoint.to_directory(), RayTrainReportCallback.CHECKPOINT_NAME)


def measure(folder):
    """Accuracy of a checkpoint's model on the held-out digits: `python digits_lightning.py FOLDER`."""
    state = torch.load(os.path.join(folder, RayTrainReportCallback.CHECKPOINT_NAME), weights_only=True)
    model = Classifier()
    model.load_state_dict(state["state_dict"])
    images, labels = split_digits()[1].tensors
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


if __name__ == "__main__":
    print(measure(sys.argv[1]))
