"""Whether the function has learned, from Ray's function or from ours, that the run or a node ends.

A function that returns after that may have stopped early: `train_controller.polls` does not take it for
a success while the run ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railhead.driver.ray import context


@dataclass
class Notices:
    """The notices of this process, which runs the function once."""

    are_watched: bool = False
    was_read: bool = False


NOTICES = Notices()


def watch_notices() -> None:
    """Once per process. Without effect in a Ray older than 2.58, which sends none."""
    NOTICES.are_watched = NOTICES.are_watched or context.watch_notices(_note)


def read_notice() -> Any:
    """Returns Ray's PreemptionInfo as it has reached this rank, or None. Asks no other rank."""
    found = context.find_notice() if NOTICES.are_watched else None
    if found is not None:
        _note()
    return found


def _note() -> None:
    NOTICES.was_read = True
