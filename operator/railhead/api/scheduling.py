"""spec.scheduling: which nodes the job's pods may use."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from railhead.api.base import Model, planned


class Scheduling(Model):
    """How the operator influences where the job's pods run."""

    node_avoidance: Literal["Auto", "None"] = Field(
        default="Auto",
        description="Auto: a node that refuses a pod of this job gets no new one for 1 h, doubled each time up to 24 h "
        "(status.avoidedNodes). None: the job avoids no node, and forgets those that it avoided. "
        "May be changed at any time.",
    )
    queue: Any | None = planned("Queue that admits the job.")
