"""status.progress.slowRanks: which ranks compute slowly."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railhead.api.model import StatusModel, make_replace, text_field, time_field
from railhead.api.names import MAX_NAME
from railhead.contract.report import MAX_SLOW_RANKS


class SlowRankStatus(StatusModel):
    """A rank that computes slowly."""

    rank: int = Field(default=0, description="World rank.")
    pod: str = text_field("Its worker pod.", MAX_NAME)
    node: str = text_field("Node of that pod.", MAX_NAME)
    score: str = text_field(
        "Its pace as a part of the median rank's, or of its own best if that is less; decimal, such as 0.68.", 16
    )
    since: str | None = time_field("Since when it is below 0.75.")


replace_slow_rank = make_replace(SlowRankStatus)
SlowRanks = Annotated[
    list[SlowRankStatus] | None,
    Field(
        max_length=MAX_SLOW_RANKS,
        description="Ranks that have computed slowly for 10 minutes on end, by the sections that training code marks "
        "with railhead.training.compute; absent if there is none.",
    ),
]


def list_spells(ranks: list[SlowRankStatus] | None) -> frozenset[tuple[int, str]]:
    """Returns each rank with the time since when it is slow."""
    return frozenset((each.rank, each.since or "") for each in ranks or ())
