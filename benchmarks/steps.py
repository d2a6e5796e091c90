"""Training for the loss benchmarks: endless steps, each noted with the size of the group.

Runs as the train_func of a TrainJob and of a driver started by hand.
"""

import json
import os
import tempfile
import time
from typing import Any

import ray.train
import torch

FAIL = "fail"


def train_func(config: dict[str, Any]) -> None:
    """config: notes (a file that rank 0 appends to), seconds (of a step). Rank 0 raises once if FAIL lies beside it."""
    context = ray.train.get_context()
    began = time.time()
    step = resume()
    while True:
        total = torch.ones(1)
        if context.get_world_size() > 1:
            torch.distributed.all_reduce(total)
        assert int(total) == context.get_world_size()
        if context.get_world_rank() == 0:
            fail = os.path.join(os.path.dirname(config["notes"]), FAIL)
            if os.path.exists(fail):
                os.unlink(fail)
                raise ValueError("the loss is not a number")
            with open(config["notes"], "a") as notes:
                note = {"time": time.time(), "workers": int(total), "step": step, "began": began}
                notes.write(json.dumps(note) + "\n")
        time.sleep(config["seconds"])
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if context.get_world_rank() == 0:
                torch.save(step, os.path.join(folder, "step.pt"))
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"step": step}, checkpoint=checkpoint)
        step += 1


def resume() -> int:
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        return int(torch.load(os.path.join(folder, "step.pt"))) + 1
