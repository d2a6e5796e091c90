"""Can the job's worker pods hold the workers that a ScalingConfig requests? Pure.

Ray waits forever for resources that will never appear. A job's pods are identical and
their number is fixed, so the answer is known before training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

_TINY = 1e-6  # Ray counts in ten-thousandths
# Ray detects these itself on each node, so their amounts are not known here.
_FOUND_BY_RAY = ("memory", "object_store_memory")
_FOUND_BY_RAY_PREFIXES = ("node:", "accelerator_type:")


@dataclass(frozen=True)
class Wanted:
    """What a ScalingConfig requests; `workers` is the minimum when it is elastic."""

    workers: int
    per_worker: Mapping[str, float]
    placement_strategy: str = "PACK"


def read_scaling_config(config: Any) -> Wanted:
    """From Ray's ScalingConfig."""
    workers = config.num_workers
    least = workers[0] if isinstance(workers, (tuple, list)) else workers
    return Wanted(int(least), dict(config._resources_per_worker_not_none), str(config.placement_strategy))


def explain_unsatisfiable(wanted: Wanted, *, pods: int, node: Mapping[str, Any]) -> str:
    """Why these pods cannot hold the workers, with the numbers, or an empty string.

    `node`: {cpus, gpus, resources}, as passed to Ray for each worker pod.
    """
    needs = {name: value for name, value in wanted.per_worker.items() if value > 0 and _is_known(name)}
    if not needs:
        return ""
    has = {"CPU": float(node.get("cpus", 0)), "GPU": float(node.get("gpus", 0)), **(node.get("resources") or {})}
    per_pod = min(int(has.get(name, 0.0) / value + _TINY) for name, value in needs.items())
    held = _count_held(per_pod, pods, wanted.placement_strategy)
    if held >= wanted.workers:
        return ""
    strategy = f" with placement_strategy {wanted.placement_strategy}" if "STRICT" in wanted.placement_strategy else ""
    return (
        f"ScalingConfig requests {_count(wanted.workers, 'worker')} of {_amounts(needs)}{strategy}; the job's "
        f"{_count(pods, 'worker pod')} of {_amounts({name: has.get(name, 0.0) for name in needs})} each "
        f"can hold {held}; change num_workers or resources_per_worker there, or spec.scaling"
    )


def _is_known(name: str) -> bool:
    return name not in _FOUND_BY_RAY and not name.startswith(_FOUND_BY_RAY_PREFIXES)


def _count_held(per_pod: int, pods: int, strategy: str) -> int:
    if strategy == "STRICT_PACK":
        return per_pod
    return pods * (min(per_pod, 1) if strategy == "STRICT_SPREAD" else per_pod)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _amounts(values: Mapping[str, float]) -> str:
    return " and ".join(f"{value:g} {name}" for name, value in sorted(values.items()))
