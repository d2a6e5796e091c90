"""Adds up the losses of all jobs by namespace, as the jobs change: whoever asks for a sum looks at no job."""

from __future__ import annotations

from railhead.contract.loss_rate import NO_JOB_LOSSES, JobLosses


class NamespaceLosses:
    """The sum for each namespace that has any."""

    def __init__(self) -> None:
        self._sums: dict[str, JobLosses] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, namespace: str, losses: JobLosses, *, times: int = 1) -> None:
        """Adds those of one job; `times`: -1 takes them out again."""
        known = self._sums.pop(namespace, NO_JOB_LOSSES).add(losses, times=times)
        # A namespace without jobs must take no memory, as there is no end of new names.
        if known != NO_JOB_LOSSES:
            self._sums[namespace] = known

    def sum_up(self, namespace: str) -> JobLosses:
        """Returns the losses of the namespace's jobs."""
        return self._sums.get(namespace, NO_JOB_LOSSES)

    def clear(self) -> None:
        """Forgets all jobs."""
        self._sums.clear()
