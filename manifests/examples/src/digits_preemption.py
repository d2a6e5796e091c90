"""Handwritten digits, with a checkpoint just before the job is suspended, or a node leaves: a drain, a spot instance.

A checkpoint after each epoch is seldom enough when an epoch takes an hour. So train_func asks
after each batch whether the run ends or a node of the group is about to leave, takes one more
checkpoint, and continues: the driver ends the run once it is committed, and Ray Train restarts
the group when a node is gone. Needs Ray 2.58 or newer; for a worker's node also `worker.drainSeconds`.
"""

import os
import tempfile
import time

import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_digits
from torch import nn

BATCH = 32


def train_func(config):
    """config: epochs, lr, pause (seconds per batch, so that there is time to delete a pod)."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16.0, dtype=torch.float32), torch.tensor(digits.target)
    model = ray.train.torch.prepare_model(nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    batches = torch.randperm(len(labels)).split(BATCH)
    batches = batches[: len(batches) // world * world]
    first = resume(model, optimizer)
    print(f"rank {rank} begins with step {first}", flush=True)
    noticed = None
    for step in range(first, config["epochs"] * (len(batches) // world)):
        batch = batches[(step * world + rank) % len(batches)]
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(config.get("pause", 0.0))
        leaving = ray.train.get_preemption_info()  # all ranks ask, and all get the same answer
        if leaving and leaving != noticed:
            print(f"rank {rank} saves step {step}: ranks {leaving.preempted_ranks} leave", flush=True)
            report(model, optimizer, step, loss.item())
            noticed = leaving
        elif (step + 1) % (len(batches) // world) == 0:
            report(model, optimizer, step, loss.item())


def report(model, optimizer, step, loss):
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            inner = getattr(model, "module", model)
            state = {"model": inner.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, os.path.join(folder, "state.pt"))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"step": step, "loss": loss}, checkpoint=checkpoint)


def resume(model, optimizer):
    """Loads the run's last checkpoint, if there is one, and returns the step to begin with."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
    getattr(model, "module", model).load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"] + 1
