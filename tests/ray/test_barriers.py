"""1,200 ranks in Ray Train's own barriers, with real actors: none of them waits forever.

The ranks are calls of this one process: what lets them in is the actor.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train.v2._internal.callbacks import datasets
from ray.train.v2._internal.execution.worker_group import worker_group

import ray
from railhead.driver.train_controller.railhead_callback import Barriers

pytestmark = pytest.mark.filterwarnings("ignore")
RANKS = 1200
TIMEOUT = 60.0  # seconds; a round takes about one


@pytest.fixture(scope="module")
def controller() -> Iterator[None]:
    """What Ray Train's controller has before it starts a group."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_group, "SynchronizationActor", worker_group.SynchronizationActor)
        patch.setattr(datasets, "ray", ray)
        Barriers().before_group_start(RANKS)
        yield
    ray.shutdown()


def test_1200_ranks_meet_in_a_report(controller: None) -> None:
    """As `WorkerGroup._start` makes the actor, and `report` and `get_preemption_info` call it."""
    assert "SynchronizationActor.options(" in inspect.getsource(worker_group)
    actor = worker_group.SynchronizationActor.options(num_cpus=0).remote()
    for number in range(2):
        arguments: Any = {"world_size": RANKS, "data": f"checkpoint_{number}", "caller_method_name": "ray.train.report"}
        calls = [actor.broadcast_from_rank_zero.remote(world_rank=rank, **arguments) for rank in reversed(range(RANKS))]
        assert set(ray.get(calls, timeout=TIMEOUT)) == {f"checkpoint_{number}"}
    ray.kill(actor)


class Config:
    """Shards a dataset like Ray's DataConfig, without Ray Data."""

    _datasets_to_split = "all"

    def configure(self, datasets: Any, world_size: int, **others: Any) -> list[dict[str, int]]:
        return [dict.fromkeys(datasets, rank) for rank in range(world_size)]


def test_1200_ranks_wait_for_their_shards_until_rank_0_has_made_them(controller: None) -> None:
    if not hasattr(datasets, "DatasetManager"):
        pytest.skip(f"Ray {ray.__version__} has no DatasetManager")
    made_actor = datasets.ray.remote(datasets.DatasetManager).options(num_cpus=0)
    arguments = {"data_config": Config(), "data_context": make_context(), "world_size": RANKS, "worker_node_ids": []}
    manager = made_actor.remote(datasets={"train": None}, **arguments)
    infos = [SimpleNamespace(dataset_name="train", world_rank=rank) for rank in reversed(range(RANKS))]
    calls = [manager.get_dataset_shard.remote(info) for info in infos]
    assert ray.get(calls, timeout=TIMEOUT) == list(reversed(range(RANKS)))
    ray.kill(manager)


def make_context() -> Any:
    from ray.data import DataContext

    return DataContext.get_current()
