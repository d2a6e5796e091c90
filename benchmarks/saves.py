"""`make bench-saves`: for how long training waits for a checkpoint, by `dcp.save(every=...)` and by hand.

One run of Ray Train without Railhead's operator: two workers, a state of which each has one half, and one way after
the other. By hand is `torch.distributed.checkpoint.save` into a folder, and `ray.train.report` with that folder. Exit
code 0 only if the ratio of the medians is within the bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command import find_folder, run_program
from benchmarks.turns import BY_HAND, describe

BOUND = 1.0
WORKERS = 2
STEP_SECONDS = 0.02
DCP = "dcp.save(every=...)"
FILE = "seconds.json"


def train(config: Mapping[str, Any]) -> None:
    """Saves in both ways on each worker; rank 0 writes for how long each save has made it wait."""
    import ray.train
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.ones(config["megabytes"], 250_000)
    state = {"weight": distribute_tensor(whole, mesh, [Shard(0)])}
    # The first save of each way makes what later ones use again.
    by_hand = [save_by_hand(state) for _ in range(config["rounds"] + 1)][1:]
    dist.barrier()
    in_background = save_in_background(state, config["rounds"] + 1)[1:]
    if ray.train.get_context().get_world_rank() == 0:
        Path(config["file"]).write_text(json.dumps({BY_HAND: by_hand, DCP: in_background}))


def save_by_hand(state: dict[str, Any]) -> float:
    """Returns for how long training waits: until it is written, and Ray Train has copied it into the run's folder."""
    import ray.train
    from torch.distributed.checkpoint import state_dict_saver
    from torch.distributed.checkpoint.filesystem import FileSystemWriter

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        state_dict_saver.save(state, storage_writer=FileSystemWriter(folder))
        ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder))
    return time.monotonic() - began


def save_in_background(state: dict[str, Any], number: int) -> list[float]:
    """Returns for how long the calls of all steps take together, from one save that begins to the next one."""
    from railhead.training import dcp

    while not dcp.save(state, every="continuous"):
        time.sleep(STEP_SECONDS)
    seconds = list[float]()
    waited = 0.0
    while len(seconds) < number:
        time.sleep(STEP_SECONDS)
        began = time.monotonic()
        begins = dcp.save(state, every="continuous")
        waited += time.monotonic() - began
        if begins:
            seconds.append(waited)
            waited = 0.0
    return seconds


def run(folder: Path, *, megabytes: int, rounds: int) -> dict[str, list[float]]:
    """Returns the seconds of each way."""
    from ray.train import CheckpointConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    import ray

    config = {"megabytes": megabytes, "rounds": rounds, "file": str(folder / FILE)}
    ray.init(address="local", num_cpus=WORKERS + 1, include_dashboard=False, object_store_memory=10**8)
    try:
        TorchTrainer(
            train,
            train_loop_config=config,
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=WORKERS),
            run_config=RunConfig(
                name="saves", storage_path=str(folder), checkpoint_config=CheckpointConfig(num_to_keep=1)
            ),
        ).fit()
    finally:
        ray.shutdown()
    seconds: dict[str, list[float]] = json.loads((folder / FILE).read_text())
    return seconds


def bench(megabytes: int, rounds: int, bound: float) -> int:
    with tempfile.TemporaryDirectory(dir=find_folder(), prefix="saves-") as name:
        seconds = run(Path(name), megabytes=megabytes, rounds=rounds)
    what = f"the time for which training waits for a checkpoint of {megabytes} MB by {WORKERS} workers"
    return describe(what, seconds, of=DCP, beside=BY_HAND, bound=bound)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-saves", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="size of the state (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds that count (default: %(default)s)")
    parser.add_argument("--bound", type=float, default=BOUND, help="bound of the ratio (default: %(default)s)")
    options = parser.parse_args()
    if options.rounds < 1 or options.megabytes < 1:
        parser.error("--rounds and --megabytes must be at least 1")
    return run_program(parser.prog, partial(bench, options.megabytes, options.rounds, options.bound))


if __name__ == "__main__":
    sys.exit(main())
