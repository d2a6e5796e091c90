"""The train_func of `head_size.py`: ranks that only report, so that as many as possible fit on one machine."""

import json
import time
from typing import Any

import ray.train


def train_func(config: dict[str, Any]) -> None:
    """config: notes (a file that rank 0 appends to), seconds (between reports)."""
    context = ray.train.get_context()
    began, step = time.time(), 0
    while True:
        ray.train.report({"step": step})
        step += 1
        if context.get_world_rank() == 0:
            with open(config["notes"], "a") as notes:
                note = {"time": time.time(), "workers": context.get_world_size(), "step": step, "began": began}
                notes.write(json.dumps(note) + "\n")
        time.sleep(config["seconds"])
