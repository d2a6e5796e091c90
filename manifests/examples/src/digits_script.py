"""Handwritten digits with PyTorch DDP as a script that calls fit() itself: what runs elsewhere runs as a TrainJob.

Only three environment variables here are Railhead's. With them the run has the job's
name and folder, so that a new attempt resumes from the last checkpoint; without them it is an
ordinary Ray Train script. The data is scikit-learn's bundled set of 1,797 images of 8 x 8 pixels.
"""

import argparse
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_digits
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("checkpoint", nargs="?", help="a folder: measures its accuracy instead of training")
    options = parser.parse_args()
    if options.checkpoint:
        print(measure_accuracy(load(build_model(), options.checkpoint)))
        return
    trainer = ray.train.torch.TorchTrainer(
        train_func,
        train_loop_config={"epochs": options.epochs, "lr": options.lr},
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(
            num_workers=int(os.environ.get("RAILHEAD_NUM_WORKERS", "2")),
            resources_per_worker={"CPU": 0.5},
        ),
        run_config=ray.train.RunConfig(
            name=os.environ.get("RAILHEAD_RUN_NAME", "digits-script"),
            storage_path=os.environ.get("RAILHEAD_STORAGE_PATH"),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    )
    print("the last report:", trainer.fit().metrics)


def train_func(config):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    pixels, labels = split_digits()[0]
    pixels, labels = pixels[rank::size], labels[rank::size]
    model, first_epoch = build_model(), 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first_epoch = load(model, folder).epoch + 1
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    for epoch in range(first_epoch, config["epochs"]):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(32):
            loss = nn.functional.cross_entropy(model(pixels[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = measure_accuracy(unwrap(model))
        print(f"epoch {epoch} rank {rank} accuracy {accuracy:.4f}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if rank == 0:
                torch.save({"model": unwrap(model).state_dict(), "epoch": epoch}, os.path.join(folder, "state.pt"))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch, "accuracy": accuracy}, checkpoint=made)


def split_digits():
    """1,437 images to learn from and 360 held out, each with its labels."""
    digits = load_digits()
    pixels = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    held_out = torch.arange(len(labels)) % 5 == 0
    return (pixels[~held_out], labels[~held_out]), (pixels[held_out], labels[held_out])


def build_model():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def unwrap(model):
    """The model itself: with more than one worker it is wrapped in DistributedDataParallel."""
    return getattr(model, "module", model)


def load(model, folder):
    """The model with the state of a checkpoint, and its epoch."""
    state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
    model.load_state_dict(state["model"])
    model.epoch = state["epoch"]
    return model


def measure_accuracy(model):
    pixels, labels = split_digits()[1]
    with torch.no_grad():
        return (model(pixels).argmax(dim=1) == labels).float().mean().item()


if __name__ == "__main__":
    main()
