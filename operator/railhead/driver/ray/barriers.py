"""Room for every rank in the actors of Ray Train in which each rank waits for the others.

An async actor runs 1,000 calls at once unless its options say otherwise, and Ray's do not: of a larger group the last
ranks would not get in, and all would wait forever, at the first `report` or `get_dataset_shard`. The controller looks
these actors up in the two modules below, by these names, when it starts a group.
"""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace

from railhead.driver.ray.callback import Step
from railhead.driver.ray.hooks import check_hooks

LIMIT = 1000  # calls at once, Ray's default for an async actor
SPARE = 16  # calls of the controller itself
_GROUPS = "ray.train.v2._internal.execution.worker_group.worker_group"
_DATASETS = "ray.train.v2._internal.callbacks.datasets"


class Barriers(Step):
    """Makes room for the ranks of each group that has more of them than Ray has room for."""

    def before_group_start(self, size: int) -> None:
        """Raises JobRefused when this Ray has no room for that many ranks."""
        if size + SPARE > LIMIT:
            check_hooks(is_large=True)
            make_room(size + SPARE)


def make_room(calls: int) -> None:
    """Makes room for that many calls at once in the actors of the groups that start from now on."""
    from ray.train.v2._internal.execution.checkpoint.sync_actor import SynchronizationActor

    import ray

    groups, datasets = sys.modules[_GROUPS], sys.modules.get(_DATASETS)
    roomy = partial(SynchronizationActor.options, max_concurrency=calls)
    setattr(groups, "SynchronizationActor", SimpleNamespace(options=roomy))  # noqa: B010
    if hasattr(datasets, "DatasetManager"):  # it is made an actor by ray.remote()
        setattr(datasets, "ray", SimpleNamespace(**{**vars(ray), "remote": ray.remote(max_concurrency=calls)}))  # noqa: B010
