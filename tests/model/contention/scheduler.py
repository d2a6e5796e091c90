"""The scheduler of the simulated cluster: which pods get a GPU now, and which make room for others. Pure.

What it places at once is a unit: a pod by itself, or the pods of a gang. One that does not fit may preempt units of
lower priority, each as a whole, as kube-scheduler does with a gang under WorkloadAwarePreemption; what they leave is
kept for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pod:
    """A pod that has not ended.

    Attributes:
        order: smaller = created earlier.
        gang: name of its PodGroup; "" = it is scheduled by itself.
        is_placed: it has a node, and holds its GPUs.
        is_leaving: it is being deleted.
    """

    name: str
    gpus: int
    priority: int
    order: int
    gang: str = ""
    is_placed: bool = False
    is_leaving: bool = False


@dataclass(frozen=True)
class Unit:
    """Pods that are placed and preempted together."""

    pods: Sequence[Pod]
    priority: int
    order: int

    @property
    def pending(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.is_placed]

    @property
    def placed(self) -> list[Pod]:
        return [pod for pod in self.pods if pod.is_placed]


@dataclass(frozen=True)
class Choice:
    """Names of pods: `placed` get their GPUs, `evicted` are preempted, and `waiting` do not fit."""

    placed: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def choose(pods: Iterable[Pod], gpus: int, least: Mapping[str, int]) -> Choice:
    """Returns what happens now. `least`: how many pods each gang needs at once."""
    known = list(pods)
    held = [pod for pod in known if pod.is_placed]
    free = gpus - count_gpus(held)
    coming = count_gpus(pod for pod in held if pod.is_leaving)  # and kept for no unit yet
    units = _group(pod for pod in known if not pod.is_leaving)
    holders = sorted((unit for unit in units if count_gpus(unit.placed)), key=lambda each: (each.priority, -each.order))
    chosen: list[Pod] = []
    evicted: list[Pod] = []
    waiting: list[Pod] = []
    for unit in sorted(units, key=lambda each: (-each.priority, each.order)):
        if not unit.pending or len(unit.pods) < least.get(unit.pods[0].gang, 1):
            continue
        need = count_gpus(unit.pending)
        if need <= free:
            chosen += unit.pending
            free -= need
            continue
        waiting += unit.pending
        if need > free + coming:
            victims = _find_victims(unit, holders, need - free - coming)
            holders = holders[len(victims) :]
            evicted += [pod for each in victims for pod in each.placed]
            coming += count_gpus(pod for each in victims for pod in each.placed)
        if need <= free + coming:
            coming -= max(0, need - free)
            free = max(0, free - need)
    placed, gone, left = (tuple(pod.name for pod in found) for found in (chosen, evicted, waiting))
    return Choice(placed, gone, left)


def count_gpus(pods: Iterable[Pod]) -> int:
    return sum(pod.gpus for pod in pods)


def _group(pods: Iterable[Pod]) -> list[Unit]:
    units: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        units[pod.gang, "" if pod.gang else pod.name].append(pod)
    return [Unit(found, found[0].priority, min(pod.order for pod in found)) for found in units.values()]


def _find_victims(unit: Unit, holders: Sequence[Unit], missing: int) -> Sequence[Unit]:
    """Returns the first holders, of the lowest priority, that make enough room; none if those below `unit` do not."""
    for number, each in enumerate(holders):
        if each.priority >= unit.priority:
            break
        missing -= count_gpus(each.placed)
        if missing <= 0:
            return holders[: number + 1]
    return ()
