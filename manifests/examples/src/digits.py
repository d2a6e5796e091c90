"""Handwritten digits with PyTorch DDP: what a train_func for a TrainJob looks like.

Each worker runs `train_func` once. The data is scikit-learn's bundled set of 1,797 images
of 8 x 8 pixels, so nothing is downloaded. After each epoch all ranks report, and rank 0
adds a checkpoint; when the run starts again, training resumes from the last one.
"""

import os
import tempfile

import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_func(config):
    """config: epochs, lr, batch_size (per worker)."""
    torch.set_num_threads(1)  # a model this small gains nothing from more
    torch.manual_seed(0)
    train_set, held_out = split_digits()
    loader = DataLoader(train_set, batch_size=config.get("batch_size", 32), shuffle=True)
    loader = ray.train.torch.prepare_data_loader(loader)
    model = ray.train.torch.prepare_model(build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=config.get("lr", 0.003))
    first_epoch = resume(model, optimizer)

    context = ray.train.get_context()
    for epoch in range(first_epoch, config.get("epochs", 10)):
        if context.get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        loss = train_one_epoch(model, optimizer, loader)
        accuracy = measure_accuracy(model, held_out)
        print(f"epoch {epoch} rank {context.get_world_rank()} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)
        metrics = {"epoch": epoch, "loss": loss, "accuracy": accuracy}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(model, optimizer, epoch, folder) if context.get_world_rank() == 0 else None
            ray.train.report(metrics, checkpoint=checkpoint)


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    held_out, train = order[:360], order[360:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[held_out], labels[held_out])


def build_model():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def train_one_epoch(model, optimizer, loader):
    """Returns the mean loss of this worker's batches."""
    model.train()
    total = 0.0
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def measure_accuracy(model, dataset):
    model.eval()
    images, labels = dataset.tensors
    with torch.no_grad():
        return (unwrap(model)(images).argmax(dim=1) == labels).float().mean().item()


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
    print(f"resuming after epoch {state['epoch']} from {checkpoint.path}", flush=True)
    return state["epoch"] + 1


def unwrap(model):
    """The model itself: with more than one worker it is wrapped in DistributedDataParallel."""
    return getattr(model, "module", model)
