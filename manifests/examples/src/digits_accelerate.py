"""Handwritten digits with a loop of Hugging Face Accelerate inside Ray Train's TorchTrainer.

The data is scikit-learn's bundled set of 1,797 images, so nothing is downloaded. The loop saves after
each epoch, and on the step on which the notice arrives that the run or a node ends. What Accelerate saves
includes the steps that are done, so the run resumes in the middle of an epoch.
"""

import os
import sys

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn

from railhead.training import compute
from railhead.training.accelerate import TrainJob

BATCH = 32


class Steps:
    """How many are done; a part of each checkpoint."""

    done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


def train_func(config):
    """config: epochs, lr."""
    torch.set_num_threads(1)  # a model this small gains nothing from more
    torch.manual_seed(0)
    accelerator, steps = Accelerator(cpu=not torch.cuda.is_available()), Steps()
    rank, world = accelerator.process_index, accelerator.num_processes
    (images, labels), held_out = split_digits()
    model = build_model()
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=config.get("lr", 0.003)))
    accelerator.register_for_checkpointing(steps)
    job = TrainJob(accelerator)
    job.load()
    per_epoch = len(labels) // (BATCH * world)
    total = config.get("epochs", 10) * per_epoch
    while steps.done < total:
        epoch, batch = divmod(steps.done, per_epoch)
        if batch == 0:
            print(f"epoch {epoch} rank {rank}", flush=True)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        chosen = order.split(BATCH)[batch * world + rank]
        with compute():  # no rank waits for another one here, so a slow rank is found
            loss = nn.functional.cross_entropy(
                model(images[chosen].to(accelerator.device)), labels[chosen].to(accelerator.device)
            )
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        steps.done += 1
        if job.step(steps.done, total=total) or steps.done % per_epoch == 0:
            accuracy = measure_model(accelerator.unwrap_model(model), *held_out)
            job.save({"loss": loss.item(), "accuracy": accuracy, "step": steps.done})


def build_model():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    held_out, train = order[:360], order[360:]
    return (images[train], labels[train]), (images[held_out], labels[held_out])


def measure_model(model, images, labels):
    device = next(model.parameters()).device
    with torch.no_grad():
        return (model(images.to(device)).argmax(dim=1) == labels.to(device)).float().mean().item()


def measure(folder):
    """Accuracy of a checkpoint's model on the held-out digits: `python digits_accelerate.py FOLDER`."""
    from safetensors.torch import load_file

    model = build_model()
    model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    return measure_model(model, *split_digits()[1])


if __name__ == "__main__":
    print(measure(sys.argv[1]))
