"""How long a driver has spent on what in its attempt: part of a report, kept in the status by the operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """Milliseconds since the driver began to count; together they are at most the attempt's time.

    Attributes:
        productive: the worker group trained, and the run did not lose it in this attempt.
        starting: until the first worker group trained.
        restoring: the worker group restarted within the attempt.
        checkpointing: rank 0 was in ray.train.report.
        retrained: training that a restart within the attempt lost, since the report call of the last checkpoint.
        hanging: no rank made a step before a hang was detected.
        uncommitted: the part of `productive` since that call, which a loss of the attempt loses.
    """

    productive: int = 0
    starting: int = 0
    restoring: int = 0
    checkpointing: int = 0
    retrained: int = 0
    hanging: int = 0
    uncommitted: int = 0
