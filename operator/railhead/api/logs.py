"""spec.logs: where the output of the ranks goes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.api.base import Model

MOST_FORWARDED = 16  # workers whose lines are all forwarded by default


class Logs(Model):
    """What the head pod's log has of the ranks' output; each worker pod's log has all of its own ranks'."""

    forward: Literal["All", "Rank0", "None"] | None = Field(
        default=None,
        description="Whose lines the head pod's log repeats: those of all ranks, of rank 0, or of none. "
        "Default: All up to 16 workers (maxWorkers of an elastic job), else Rank0.",
    )
