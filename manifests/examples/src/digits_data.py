"""Handwritten digits by way of Ray Data: functions of spec.datasets, and a train_func that reads their rows.

`build_train` and `build_held_out` are called in the driver; `scale` runs in tasks on the worker
pods. The data is scikit-learn's bundled set of 1,797 images of 8 x 8 pixels, so nothing is
downloaded. Each worker sees its part of the training rows, and all of the held out ones.
"""

import os
import tempfile

import ray.data
import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_digits
from torch import nn


def build_train():
    return read_digits(held_out=False).map_batches(scale)


def build_held_out():
    return read_digits(held_out=True).map_batches(scale)


def read_digits(held_out):
    """Each fifth image is held out. Real data would come from files: ray.data.read_parquet(...)."""
    digits = load_digits()
    rows = [{"pixels": digits.data[n], "label": int(digits.target[n])} for n in range(len(digits.target))]
    return ray.data.from_items([row for n, row in enumerate(rows) if (n % 5 == 0) == held_out], override_num_blocks=4)


def scale(batch):
    batch["pixels"] = (batch["pixels"] / 16.0).astype("float32")
    return batch


def train_func(config):
    """config: epochs, lr, batch_size (per worker)."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    held_out = list(ray.train.get_dataset_shard("held_out").iter_torch_batches(batch_size=128))
    train = ray.train.get_dataset_shard("train")
    model = ray.train.torch.prepare_model(build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=config.get("lr", 0.01))
    first_epoch = resume(model, optimizer)

    rank = ray.train.get_context().get_world_rank()
    for epoch in range(first_epoch, config.get("epochs", 5)):
        rows = train_one_epoch(model, optimizer, train, batch_size=config.get("batch_size", 32))
        accuracy = measure_accuracy(model, held_out)
        print(f"epoch {epoch} rank {rank} rows {rows} accuracy {accuracy:.4f}", flush=True)
        metrics = {"epoch": epoch, "rows": rows, "accuracy": accuracy}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(model, optimizer, epoch, folder) if rank == 0 else None
            ray.train.report(metrics, checkpoint=checkpoint)


def build_model():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def train_one_epoch(model, optimizer, shard, batch_size):
    """Returns the number of rows that this worker saw: the same on all, so that all take as many steps."""
    model.train()
    rows = 0
    for batch in shard.iter_torch_batches(batch_size=batch_size, local_shuffle_buffer_size=256):
        loss = nn.functional.cross_entropy(model(batch["pixels"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(batch["label"])
    return rows


def measure_accuracy(model, batches):
    model.eval()
    with torch.no_grad():
        right = sum((unwrap(model)(b["pixels"]).argmax(dim=1) == b["label"]).sum().item() for b in batches)
    return right / sum(len(b["label"]) for b in batches)


def save(model, optimizer, epoch, folder):
    state = {"model": unwrap(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, os.path.join(folder, "state.pt"))
    return ray.train.Checkpoint.from_directory(folder)


def resume(model, optimizer):
    """Loads the run's last checkpoint, if there is one, and returns the epoch to begin with."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
    unwrap(model).load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"] + 1


def unwrap(model):
    """The model itself: with more than one worker it is wrapped in DistributedDataParallel."""
    return getattr(model, "module", model)
