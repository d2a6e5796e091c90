"""How many workers an elastic group starts with, and when it is resized. Pure.

A resize restarts the group from the last checkpoint, so the only moment at which it costs
nothing is right after a commit. A group that lost a worker restarts at once with the
workers that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional


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
    def from_job(scaling: Mapping[str, Any], *, worker_pods: Optional[int]) -> Bounds:
        """`scaling`: from the job's input; `worker_pods`: desired at this start, None = all."""
        per_pod = int(scaling["workersPerPod"])
        most = int(scaling["maxWorkers"])
        return Bounds(
            least=int(scaling["minWorkers"]),
            most=most,
            desired=most if worker_pods is None else min(worker_pods * per_pod, most),
            per_pod=per_pod,
            start_wait=float(scaling["startWaitSeconds"]),
            resize_interval=float(scaling["resizeIntervalSeconds"]),
        )


def decide_start(bounds: Bounds, *, nodes: int, waited: float, has_run: bool) -> Optional[int]:
    """The size of a group that is not running, or None to wait. `nodes`: live worker nodes; `waited`: seconds."""
    workers = min(nodes * bounds.per_pod, bounds.most)
    if workers < bounds.least:
        return None
    if has_run or workers >= bounds.desired or waited >= bounds.start_wait:
        return workers
    return None


def decide_resize(bounds: Bounds, *, nodes: int, workers: int, ran: float) -> Optional[int]:
    """The new size of a group that has just committed, or None. `workers`: its size; `ran`: seconds since its start."""
    possible = min(nodes * bounds.per_pod, bounds.most)
    if possible <= workers or ran < bounds.resize_interval:
        return None
    return possible
