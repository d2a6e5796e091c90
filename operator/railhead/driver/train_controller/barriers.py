"""Room for every rank in the actors of Ray Train in which each rank waits for the others.

An async actor runs 1,000 calls at once unless its options say otherwise, and Ray's do not: of a larger group the last
ranks would not get in, and all would wait forever, at the first `report` or `get_dataset_shard`. Reaches into Ray: the
controller looks these actors up in the two modules below, by these names, when it starts a group.
"""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.driver.train_controller.ray_hooks import check_hooks

LIMIT = 1000  # calls at once, Ray's default for an async actor
SPARE = 16  # calls of the controller itself
_GROUPS = "ray.train.v2._internal.execution.worker_group.worker_group"
_DATASETS = "ray.train.v2._internal.callbacks.datasets"


class BarrierCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Before each worker group."""

    def before_worker_group_start(self, worker_group_context: Any) -> None:
        """Raises JobRefused when this Ray has no room for that many ranks."""
        if worker_group_context.num_workers + SPARE > LIMIT:
            check_hooks(is_large=True)
            make_room(worker_group_context.num_workers + SPARE)


def make_room(calls: int) -> None:
    """For that many at once, in the actors of the groups that start from now on."""
    from ray.train.v2._internal.execution.checkpoint.sync_actor import SynchronizationActor

    import ray

    groups, datasets = sys.modules[_GROUPS], sys.modules.get(_DATASETS)
    roomy = partial(SynchronizationActor.options, max_concurrency=calls)
    setattr(groups, "SynchronizationActor", SimpleNamespace(options=roomy))  # noqa: B010
    if hasattr(datasets, "DatasetManager"):  # it is made an actor by ray.remote()
        setattr(datasets, "ray", SimpleNamespace(**{**vars(ray), "remote": ray.remote(max_concurrency=calls)}))  # noqa: B010
