"""Tumours with a linear model in PyTorch DDP: your own function creates the trainer and prepares the data.

`make_trainer` is called once in the driver, before the workers start: it measures the mean and
deviation of each feature and passes them to the workers, which is what `trainer.build` is for.
The data is scikit-learn's bundled set of 569 tumours with 30 features.
"""

import os
import sys
import tempfile

import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn


def make_trainer(scaling_config, run_config, train_loop_config, datasets):
    features, _ = split_tumours()[0]
    scale = {"mean": features.mean(dim=0).tolist(), "deviation": features.std(dim=0).tolist()}
    return ray.train.torch.TorchTrainer(
        train_func,
        train_loop_config={**train_loop_config, "scale": scale},
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        scaling_config=scaling_config,
        run_config=run_config,
    )


def train_func(config):
    """config: epochs, lr, scale (by make_trainer)."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    features, labels = split_tumours()[0]
    features, labels = features[rank::size], labels[rank::size]
    model = Model(config["scale"])
    first_epoch = resume(model)
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.get("lr", 0.05))
    for epoch in range(first_epoch, config.get("epochs", 10)):
        loss = nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bare = getattr(model, "module", model)
        accuracy = measure_accuracy(bare)
        print(f"epoch {epoch} rank {rank} loss {loss.item():.4f} accuracy {accuracy:.4f}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if rank == 0:
                torch.save({"model": bare.state_dict(), "epoch": epoch}, os.path.join(folder, "state.pt"))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "accuracy": accuracy}, checkpoint=made)


class Model(nn.Module):
    """A linear model behind the scaling of its features, which is part of its checkpoints."""

    def __init__(self, scale=None):
        super().__init__()
        self.register_buffer("mean", torch.tensor(scale["mean"]) if scale else torch.zeros(30))
        self.register_buffer("deviation", torch.tensor(scale["deviation"]) if scale else torch.ones(30))
        self.linear = nn.Linear(30, 2)

    def forward(self, features):
        return self.linear((features - self.mean) / self.deviation)


def split_tumours():
    """455 tumours to learn from and 114 held out, each with its labels."""
    tumours = load_breast_cancer()
    features = torch.tensor(tumours.data, dtype=torch.float32)
    labels = torch.tensor(tumours.target)
    held_out = torch.arange(len(labels)) % 5 == 0
    return (features[~held_out], labels[~held_out]), (features[held_out], labels[held_out])


def resume(model):
    """Loads the run's last checkpoint, if there is one, and returns the epoch to begin with."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        return load(model, folder) + 1


def load(model, folder):
    """The epoch of a checkpoint, whose state the model gets."""
    state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
    model.load_state_dict(state["model"])
    return state["epoch"]


def measure_accuracy(model):
    features, labels = split_tumours()[1]
    with torch.no_grad():
        return (model(features).argmax(dim=1) == labels).float().mean().item()


if __name__ == "__main__":  # python cancer_build.py FOLDER
    trained = Model()
    load(trained, sys.argv[1])
    print(measure_accuracy(trained))
