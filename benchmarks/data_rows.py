"""The train_func of both ways: reads all rows in each epoch and reports the rate. Copied to the driver and the job."""

import tempfile
import time

import ray.train


def train_func(config):  # type: ignore[no-untyped-def]
    """config: epochs, batch_size. The first epoch starts Ray Data's processes and does not count.

    Each report has a checkpoint: without one, the result of fit() has no metrics.
    """
    shard = ray.train.get_dataset_shard("train")
    rows, seconds = 0, 0.0
    for epoch in range(config["epochs"]):
        began, seen = time.perf_counter(), 0
        for batch in shard.iter_batches(batch_size=config["batch_size"]):
            seen += len(batch["id"])
        took = time.perf_counter() - began
        print(f"epoch {epoch} rank {ray.train.get_context().get_world_rank()} rows {seen} in {took:.2f} s", flush=True)
        if epoch:
            rows, seconds = rows + seen, seconds + took
        rate = rows * ray.train.get_context().get_world_size() / max(seconds, 1e-9)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"rows": rows, "rate": rate}, checkpoint=checkpoint)
