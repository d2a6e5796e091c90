"""The worker pods of the current attempt, divided once per pass: each is in exactly one set.

| set | which pods |
|---|---|
| live | not ended and not being deleted, of a slot that the job has; of a slot with several, the latest round |
| duplicates | as live, but its slot has a live pod of a later round (two operators, of which one had seen less) |
| lost | ended, or being deleted |
| out_of_range | as live, of a slot that the job does not have |

Pods of other attempts and heads are in none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from railhead.api import names
from railhead.planning.pod_view import PodView


@dataclass(frozen=True)
class WorkerPods:
    """The sets; `live` is in the order of its slots.

    Attributes:
        free_slots: those that no live pod has, in their order.
    """

    live: tuple[PodView, ...]
    duplicates: tuple[PodView, ...]
    lost: tuple[PodView, ...]
    out_of_range: tuple[PodView, ...]
    free_slots: tuple[int, ...]

    @staticmethod
    def of(pods: Iterable[PodView], *, attempt: int, slots: int) -> WorkerPods:
        """`slots`: how many the job has at most."""
        newest: dict[int, PodView] = {}
        duplicates, lost, out_of_range = [], [], []
        for pod in pods:
            if pod.role != names.WORKER or pod.attempt != attempt:
                continue
            if not pod.is_live:
                lost.append(pod)
            elif not 0 <= pod.slot < slots:
                out_of_range.append(pod)
            else:
                older, newer = sorted((newest.get(pod.slot, pod), pod), key=lambda each: each.round)
                newest[pod.slot] = newer
                if older is not newer:
                    duplicates.append(older)
        return WorkerPods(
            live=tuple(newest[slot] for slot in sorted(newest)),
            duplicates=tuple(duplicates),
            lost=tuple(lost),
            out_of_range=tuple(out_of_range),
            free_slots=tuple(slot for slot in range(slots) if slot not in newest),
        )
