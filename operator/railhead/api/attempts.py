"""status.attempts: one entry per attempt. The bounds keep a full list below 4 kB, whatever it holds."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from railhead.api.model import StatusModel, time_field

MAX_ATTEMPTS = 10
MAX_REASON = 64
MAX_NODE = 96
PLAIN = "A-Za-z0-9._/-"  # one byte each in JSON
_TIME = len("2026-01-01T00:00:00Z")


def _word(description: str, limit: int, alias: str | None = None) -> Any:
    return Field(default="", alias=alias, max_length=limit, pattern=f"^[{PLAIN}]*$", description=description)


class Attempt(StatusModel):
    """One attempt of the job."""

    number: int = Field(ge=1, description="Number of the attempt.")
    generation: int = Field(
        default=0,
        ge=0,
        description="metadata.generation of the spec that the attempt was made from; 0 = not known.",
        json_schema_extra={"format": "int64"},
    )
    start_time: str | None = time_field("When it was decided.", limit=_TIME)
    running_time: str | None = time_field("When training first ran in it; absent if it never did.", limit=_TIME)
    completion_time: str | None = time_field("When it ended; absent while it lasts.", limit=_TIME)
    class_: str = _word(
        "How it ended: Succeeded, Suspended, or a class of status.failure; empty while it lasts.", 24, alias="class"
    )
    reason: str = _word(f"Reason of its failure, at most {MAX_REASON} characters of it.", MAX_REASON)
    node: str = _word(
        f"Node of the rank that seems to have failed first, else of the pod where the failure was observed; at most "
        f"{MAX_NODE} characters of its name.",
        MAX_NODE,
    )
    rounds: int = Field(default=0, ge=0, description="Replacements and reductions of worker pods in it.")
