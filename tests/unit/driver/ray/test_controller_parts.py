"""Ray Train's barriers have room for every rank of a group; tests/ray/test_barriers.py shows it with a real actor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ray.train.v2._internal.callbacks import datasets
from ray.train.v2._internal.execution.checkpoint import sync_actor
from ray.train.v2._internal.execution.worker_group import worker_group

import ray
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.train_controller.railhead_callback import LIMIT, SPARE, Barriers

ROOM = "max_concurrency"


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller has its own process; here, patches of Ray's modules must be undone."""
    monkeypatch.setattr(worker_group, "SynchronizationActor", worker_group.SynchronizationActor)
    monkeypatch.setattr(datasets, "ray", ray)


def start(size: int) -> None:
    Barriers().before_group_start(size)


def test_a_large_group_has_room_for_all_its_ranks_and_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_actor, "SynchronizationActor", SimpleNamespace(options=lambda **options: options))
    for size in (4096, 1200):  # a group that restarts
        start(size)
        assert worker_group.SynchronizationActor.options(num_cpus=0) == {ROOM: size + SPARE, "num_cpus": 0}
        assert datasets.ray.remote(datasets.DatasetManager)._default_options[ROOM] == size + SPARE
    assert datasets.ray.get is ray.get and datasets.ray.get_runtime_context is ray.get_runtime_context


def test_a_group_that_ray_has_room_for_is_left_alone() -> None:
    before = worker_group.SynchronizationActor
    start(LIMIT - SPARE)
    assert worker_group.SynchronizationActor is before and datasets.ray is ray
    start(LIMIT - SPARE + 1)
    assert worker_group.SynchronizationActor is not before


def test_a_ray_without_room_is_refused_before_its_ranks_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(worker_group, "SynchronizationActor")
    start(512)
    with pytest.raises(JobRefused, match=r"worker_group\.SynchronizationActor"):
        start(1200)
