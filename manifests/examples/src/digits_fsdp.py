"""Handwritten digits with FSDP2 and sharded checkpoints inside Ray Train's TorchTrainer.

Each worker holds a part of the model and of the optimizer's state, and writes that part while training
continues, as often as that costs little. The parts are one checkpoint, from which a job with another number of
workers can resume. The data is scikit-learn's bundled set of 1,797 images, so nothing is downloaded.
"""

import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from railhead import training
from railhead.training import dcp

BATCH = 32


class Training:
    """Model, optimizer and the steps that are done: what a checkpoint contains."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.done = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "done": self.done}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.done = state["done"]


def train_func(config):
    """config: epochs, lr."""
    torch.set_num_threads(1)  # a model this small gains nothing from more
    torch.manual_seed(0)
    rank, world = dist.get_rank(), dist.get_world_size()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (images, labels), held_out = split_digits(device)
    model = build_model().to(device)
    for part in (*model, model):
        fully_shard(part, mesh=init_device_mesh(device, (world,)))
    now = Training(model, torch.optim.Adam(model.parameters(), lr=config.get("lr", 0.003)))
    dcp.load({"training": now})
    per_epoch = len(labels) // (BATCH * world)
    total = config.get("epochs", 10) * per_epoch

    def measure_step():
        """Called when a save begins, on all workers in the same step."""
        return {"accuracy": measure_model(model, *held_out), "step": now.done}

    while now.done < total:
        epoch, batch = divmod(now.done, per_epoch)
        if batch == 0:
            print(f"epoch {epoch} rank {rank}", flush=True)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        chosen = order.split(BATCH)[batch * world + rank]
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        now.optimizer.zero_grad()
        loss.backward()
        now.optimizer.step()
        now.done += 1
        training.progress(now.done, total=total)
        dcp.save({"training": now}, metrics=measure_step, every="auto")
    dcp.save({"training": now}, metrics=measure_step)  # the end


def build_model():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def split_digits(device="cpu"):
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32, device=device)
    labels = torch.tensor(digits.target, device=device)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    held_out, train = order[:360], order[360:]
    return (images[train], labels[train]), (images[held_out], labels[held_out])


def measure_model(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def measure(folder):
    """Accuracy of a checkpoint's model on the held-out digits: `python digits_fsdp.py FOLDER`."""
    model = build_model()
    state = {"training": {"model": model.state_dict()}}
    load(state, checkpoint_id=folder, no_dist=True)
    model.load_state_dict(state["training"]["model"])
    return measure_model(model, *split_digits()[1])


if __name__ == "__main__":
    print(measure(sys.argv[1]))
