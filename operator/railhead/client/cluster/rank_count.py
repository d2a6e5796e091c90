"""How many ranks a job may have. Shell completion imports this too, so it needs nothing else of the client."""

from __future__ import annotations

from railhead.json_object import Object, part


def count_ranks(job: Object) -> tuple[int, int]:
    """Returns the least and the most ranks that the spec allows; they are the same for a job that is not elastic."""
    scaling = part(part(job, "spec"), "scaling")
    fixed = scaling.get("numWorkers") or 1
    return int(scaling.get("minWorkers") or fixed), int(scaling.get("maxWorkers") or fixed)
