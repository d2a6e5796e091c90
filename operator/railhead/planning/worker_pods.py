"""The worker pods of the current attempt, partitioned once per pass: each is in exactly one set.

| set | which pods |
|---|---|
| live | neither terminated nor being deleted, in a slot of the job; of several in a slot, the latest round |
| duplicates | the slot has a live pod of a later round (two operators, one with a stale view), or one that answers |
| lost | terminated, being deleted, or out of the driver's reach |
| out_of_range | like live, but in a slot that the job does not have |

Pods of other attempts and heads are in no set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from railhead.api import names
from railhead.planning.pod_view import PodView


@dataclass(frozen=True)
class WorkerPods:
    """The sets; `live` is ordered by slot.

    Attributes:
        free_slots: slots without a live pod, in order.
    """

    live: tuple[PodView, ...]
    duplicates: tuple[PodView, ...]
    lost: tuple[PodView, ...]
    out_of_range: tuple[PodView, ...]
    free_slots: tuple[int, ...]

    @staticmethod
    def of(pods: Iterable[PodView], *, attempt: int, slots: int, unreachable: Collection[str] = ()) -> WorkerPods:
        """`slots`: the maximum number of slots of the job; `unreachable`: names of pods that the driver has lost."""
        newest: dict[int, PodView] = {}
        duplicates, lost, out_of_range, silent = [], [], [], []
        for pod in pods:
            if pod.role != names.WORKER or pod.attempt != attempt:
                continue
            if not pod.is_live:
                lost.append(pod)
            elif pod.name in unreachable:
                silent.append(pod)
            elif not 0 <= pod.slot < slots:
                out_of_range.append(pod)
            elif (other := newest.setdefault(pod.slot, pod)) is not pod:
                older, newer = sorted((other, pod), key=lambda each: each.round)
                newest[pod.slot] = newer
                duplicates.append(older)
        for pod in silent:
            (duplicates if pod.slot in newest else lost).append(pod)
        return WorkerPods(
            live=tuple(newest[slot] for slot in sorted(newest)),
            duplicates=tuple(duplicates),
            lost=tuple(lost),
            out_of_range=tuple(out_of_range),
            free_slots=tuple(slot for slot in range(slots) if slot not in newest),
        )
