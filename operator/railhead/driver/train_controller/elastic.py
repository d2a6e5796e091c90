"""How many workers an elastic group starts with, and when it is resized.

A resize restarts the group from the last checkpoint, so the only moment at which it costs
nothing is right after a commit. A group that lost a worker restarts at once with the
workers that are left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Optional

from railhead.contract.job_input import ScalingInput
from railhead.driver.container.run_context import RunContext
from railhead.driver.messages.log import log
from railhead.driver.ray.nodes import list_lost_nodes, list_worker_nodes
from railhead.driver.train_controller.worker_group import Group, get_group

LOOK_SECONDS = 1.0  # between two looks at the nodes while a group waits: Ray asks again and again, without a pause
PAUSE_SECONDS = 0.2
# Later Ray itself knows of a node that was lost.
PROBE_VALID_SECONDS = 60.0


@dataclass(frozen=True)
class Bounds:
    """In Ray Train workers and seconds.

    Attributes:
        least, most: bounds of the group's size.
        desired: how many workers the first start waits for.
        per_pod: workers per Ray node.
        start_wait: how long the first start waits for `desired`.
        resize_interval: how long a group runs, at least, before it is resized.
    """

    least: int
    most: int
    desired: int
    per_pod: int
    start_wait: float
    resize_interval: float

    @staticmethod
    def from_job(scaling: ScalingInput, *, worker_pods: Optional[int]) -> Optional[Bounds]:
        """Returns None for a job with a fixed size. `worker_pods`: desired at this start, None = all."""
        elastic = scaling.elastic
        most = scaling.num_workers
        if elastic is None:
            return None
        return Bounds(
            least=elastic.min_workers,
            most=most,
            desired=most if worker_pods is None else min(worker_pods * elastic.workers_per_pod, most),
            per_pod=elastic.workers_per_pod,
            start_wait=elastic.start_wait_seconds,
            resize_interval=elastic.resize_interval_seconds,
        )


def decide_start(bounds: Bounds, *, nodes: int, waited: float, has_run: bool) -> Optional[int]:
    """Returns the size of a group that is not running, None to wait. `nodes`: live worker nodes; `waited`: seconds."""
    workers = min(nodes * bounds.per_pod, bounds.most)
    if workers < bounds.least:
        return None
    if has_run or workers >= bounds.desired or waited >= bounds.start_wait:
        return workers
    return None


def decide_resize(bounds: Bounds, *, nodes: int, workers: int, ran: float) -> Optional[int]:
    """Returns the new size of a group that has just committed, or None.

    `workers`: its size; `ran`: seconds since its start.
    """
    possible = min(nodes * bounds.per_pod, bounds.most)
    if possible <= workers or ran < bounds.resize_interval:
        return None
    return possible


def make_sizes(bounds: Bounds) -> ResizeDecider:
    """Returns the decisions of the fit() that begins."""
    return ResizeDecider(bounds, get_group(RunContext.read().run_uri))


class ResizeDecider:
    """Decides by the live nodes and the commits; one per fit(), in the controller."""

    def __init__(self, bounds: Bounds, group: Group) -> None:
        self._bounds = bounds
        self._group = group
        self._waiting_since: Optional[float] = None
        self._look_at = 0.0
        self._lost: frozenset[str] = frozenset()
        self._started_at: Optional[float] = None
        self._commits_seen = 0

    def decide_start(self) -> Optional[int]:
        """Probes the nodes once, when the group has just been lost."""
        now = time.monotonic()
        has_run = self._started_at is not None
        if self._waiting_since is not None and now < self._look_at:
            time.sleep(PAUSE_SECONDS)
            return None
        found = list_worker_nodes()
        if self._waiting_since is None:
            self._waiting_since = now
            self._lost = list_lost(found) if has_run else frozenset()
        self._look_at = now + LOOK_SECONDS
        waited = now - self._waiting_since
        nodes = len(found - (self._lost if waited < PROBE_VALID_SECONDS else frozenset()))
        workers = decide_start(self._bounds, nodes=nodes, waited=waited, has_run=has_run)
        if workers is not None:
            self._waiting_since = None
            self._started_at = now
            self._commits_seen = self._group.commits
            log(f"starting the worker group with {workers} workers")
        return workers

    def decide_resize(self, *, workers: int) -> Optional[int]:
        """Counts the nodes only if there was a commit since the last time."""
        if self._group.commits == self._commits_seen or self._started_at is None:
            return None
        self._commits_seen = self._group.commits
        now = time.monotonic()
        found = list_worker_nodes()
        nodes = len(found - list_lost(found))
        resized = decide_resize(self._bounds, nodes=nodes, workers=workers, ran=now - self._started_at)
        if resized is not None:
            self._started_at = now
            log(f"resizing the worker group from {workers} to {resized} workers")
        return resized


def list_lost(nodes: frozenset[str]) -> frozenset[str]:
    """Returns the nodes that do not answer a probe."""
    return frozenset(lost.node_id for lost in list_lost_nodes(set(nodes)))
