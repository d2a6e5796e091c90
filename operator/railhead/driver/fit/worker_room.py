"""Counts the workers that a job's worker pods have room for, when the user's code has chosen its own ScalingConfig.

Ray waits forever for resources that no node has, since a cluster might still bring one. A TrainJob's pods are known
before training, so such a ScalingConfig is refused before it.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional

from railhead.contract.job_input import RayNode
from railhead.driver.ray.types import ScalingConfig


def explain_missing_room(config: ScalingConfig, *, pods: int, pod: RayNode) -> str:
    """Returns why the workers of this ScalingConfig never start; empty if the pods have room for them.

    `pods`: as many as the job can have; `pod`: what each of them has as a node of Ray.
    """
    needs = _list_needs(config)
    room = _count_room(needs, pods=pods, pod=pod)
    wanted = config.num_workers
    if not isinstance(wanted, int):
        # An elastic group begins with its minimum.
        wanted = wanted[0]
    if room is None or wanted <= room:
        return ""
    need = ", ".join(f"{amount:g} {name}" for name, amount in sorted(needs.items()))
    return (
        f"ScalingConfig asks for {wanted} workers of {need}, but the {pods} worker pods have room for {room}; correct "
        "num_workers or resources_per_worker there, or spec.scaling"
    )


def _list_needs(config: ScalingConfig) -> Dict[str, float]:
    """Returns what one worker needs, by Ray's names; without resources_per_worker Ray's default."""
    unit = "GPU" if config.use_gpu else "CPU"
    needs = {unit: 1.0}
    if config.resources_per_worker is not None:
        needs = {name: float(amount) for name, amount in config.resources_per_worker.items()}
        if config.use_gpu:
            needs.setdefault("GPU", 1.0)
    return {name: amount for name, amount in needs.items() if amount > 0}


def _count_room(needs: Mapping[str, float], *, pods: int, pod: RayNode) -> Optional[int]:
    """Returns for how many workers the pods have room together; None if nothing that we know of bounds them."""
    # Ray finds out memory, types of accelerators and the like by itself, so only these are known here.
    has = {"CPU": float(pod.cpus), "GPU": float(pod.gpus), **pod.resources}
    # A little more, since a quotient of fractions may be just below a whole number.
    bounds = [int(has[name] / amount + 1e-6) for name, amount in needs.items() if name in has]
    if not bounds:
        return None
    return pods * min(bounds)
