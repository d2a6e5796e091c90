"""Leaves out actors of Ray Train that do nothing in a TrainJob: each is a process that starts with the worker group.

PlacementGroupCleaner frees the workers' places when the controller dies; then fit() fails, and all pods of the
attempt end. The other two are for datasets, which the trainer may not have: `_AutoscalingCoordinatorActor` divides the
nodes between Ray Train and Ray Data (it also requests more nodes: here those are pods), and DatasetManager, since
Ray 2.60, serves the shards.

Source: `DataParallelTrainer`, `ScalingPolicy` and `DatasetsCallback` in `ray/train/v2`; tests/ray/test_contract.py
checks what this relies on. A Ray that lacks it starts as it does by itself.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, List, Mapping

CLEANER = "PlacementGroupCleanerCallback"
DATASETS = "DatasetsCallback"
MANAGER = "DatasetManager"
REQUESTS = ("_send_resource_request", "_maybe_send_resource_request", "_cancel_resource_request")


def leave_out_unused_actors() -> None:
    """Where fit() hands its policy and its callbacks to the controller."""
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = getattr(DataParallelTrainer, "_initialize_and_run_controller", None)
    if run is None:
        return

    @functools.wraps(run)
    def run_without(self: Any, **parts: Any) -> Any:
        callbacks = [each for each in parts.get("callbacks") or [] if type(each).__name__ != CLEANER]
        if not self.datasets:
            leave_out_data(parts.get("scaling_policy"), callbacks)
        return run(self, **{**parts, "callbacks": callbacks})

    DataParallelTrainer._initialize_and_run_controller = run_without


def leave_out_data(policy: Any, callbacks: List[Any]) -> None:
    """Of a trainer without datasets. Both are pickled into the controller as they are now."""
    for name in REQUESTS:
        if hasattr(policy, name):
            setattr(policy, name, _do_nothing)
    for each in callbacks:
        if type(each).__name__ == DATASETS and hasattr(sys.modules.get(type(each).__module__), MANAGER):
            each.before_init_train_context = _provide_no_shards


class NoShards:
    """What the ranks ask for the shard of a dataset."""

    def get_dataset_shard(self, dataset_info: Any) -> Any:
        """Raises KeyError, as Ray's own does."""
        raise KeyError(
            f"Dataset shard for '{dataset_info.dataset_name}' not found. "
            "Please ensure that the dataset is passed through the Trainer `datasets` argument."
        )


def _do_nothing() -> None:
    pass


def _provide_no_shards(workers: List[Any]) -> Mapping[str, List[NoShards]]:
    return {"dataset_shard_provider": [NoShards()] * len(workers)}
