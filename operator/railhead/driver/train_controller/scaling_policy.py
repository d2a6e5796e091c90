"""Our scaling policy inside Ray Train's controller: counts the nodes, decides with `elastic`.

Ray's own policy resizes at any time, which throws away the work since the last checkpoint,
and after a loss it first requests the workers that are gone. This one takes its
place by replacing `create_scaling_policy` where `fit()` looks it up; Ray offers no other
hook. tests/ray checks the contract, per Ray version.
"""

from __future__ import annotations

import time
from typing import Any, Optional

from railhead.contract.job_input import WORKER_SLOT
from railhead.driver.train_controller import elastic, group
from railhead.driver.train_controller.elastic import Bounds
from railhead.driver.train_controller.lost_nodes import find_lost_nodes

LOOK_SECONDS = 1.0  # between two looks at the nodes while a group waits: Ray asks again and again, without a pause
PAUSE_SECONDS = 0.2
PROBE_VALID_SECONDS = 60.0  # later Ray itself knows of a node that was lost


def install_scaling_policy(bounds: Bounds) -> None:
    from ray.train.v2.api import data_parallel_trainer

    ray_own = data_parallel_trainer.create_scaling_policy

    def create_scaling_policy(scaling_config: Any) -> Any:
        """A trainer that the user built may have a fixed number of workers."""
        is_elastic = scaling_config.elasticity_enabled
        return build_scaling_policy(scaling_config, bounds) if is_elastic else ray_own(scaling_config)

    data_parallel_trainer.create_scaling_policy = create_scaling_policy


def build_scaling_policy(scaling_config: Any, bounds: Bounds) -> Any:
    """Ray calls this in the driver and pickles the result into the controller."""
    from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy, NoopDecision

    class RailheadScalingPolicy(ElasticScalingPolicy):  # type: ignore[misc]
        """Ray's own, which talks to the coordinator that Ray Data uses too; the decisions are ours."""

        def __init__(self, scaling_config: Any) -> None:
            super().__init__(scaling_config)
            self._decider = ResizeDecider(bounds)

        def make_decision_for_non_running_worker_group(self) -> Any:
            self._maybe_send_resource_request()
            return self._resize_to(self._decider.decide_start())

        def make_decision_for_running_worker_group(self, worker_group_state: Any, worker_group_status: Any) -> Any:
            self._maybe_send_resource_request()
            return self._resize_to(self._decider.decide_resize(workers=worker_group_state.num_workers))

        def _resize_to(self, workers: Optional[int]) -> Any:
            return NoopDecision() if workers is None else self._get_resize_decision(workers)

    return RailheadScalingPolicy(scaling_config)


class ResizeDecider:
    """The state behind the decisions; one per fit(), in the controller."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._waiting_since: Optional[float] = None
        self._look_at = 0.0
        self._lost: frozenset[str] = frozenset()
        self._started_at: Optional[float] = None
        self._commits_seen = 0

    def decide_start(self) -> Optional[int]:
        """Probes the nodes once, when the group has just been lost."""
        now, has_run = time.monotonic(), self._started_at is not None
        if self._waiting_since is not None and now < self._look_at:
            time.sleep(PAUSE_SECONDS)
            return None
        found = list_worker_nodes()
        if self._waiting_since is None:
            self._waiting_since = now
            self._lost = find_lost(found) if has_run else frozenset()
        self._look_at = now + LOOK_SECONDS
        waited = now - self._waiting_since
        nodes = len(found - (self._lost if waited < PROBE_VALID_SECONDS else frozenset()))
        workers = elastic.decide_start(self._bounds, nodes=nodes, waited=waited, has_run=has_run)
        if workers is not None:
            self._waiting_since, self._started_at = None, now
            self._commits_seen = group.CURRENT.commits
            print(f"railhead: starting the worker group with {workers} workers", flush=True)
        return workers

    def decide_resize(self, *, workers: int) -> Optional[int]:
        """Counts the nodes only if there was a commit since the last time."""
        if group.CURRENT.commits == self._commits_seen or self._started_at is None:
            return None
        self._commits_seen = group.CURRENT.commits
        now = time.monotonic()
        found = list_worker_nodes()
        nodes = len(found - find_lost(found))
        resized = elastic.decide_resize(self._bounds, nodes=nodes, workers=workers, ran=now - self._started_at)
        if resized is not None:
            self._started_at = now
            print(f"railhead: resizing the worker group from {workers} to {resized} workers", flush=True)
        return resized


def list_worker_nodes() -> frozenset[str]:
    """Ids of the nodes that accept workers. Ray may list a lost one for some ten seconds more."""
    import ray

    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get(WORKER_SLOT))


def find_lost(nodes: frozenset[str]) -> frozenset[str]:
    """Those that do not answer a probe."""
    return frozenset(lost.node_id for lost in find_lost_nodes(set(nodes)))
