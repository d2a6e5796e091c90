"""Whether the function has learned, from Ray's function or from ours, that the run or a node ends.

A function that returns after that may have stopped early: `train_controller.returns` does not take it for
a success while the run ends. Reaches into Ray: its public function `ray.train.get_preemption_info` calls this method,
however it was imported, and the context has what reached this rank.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

METHOD = "get_preemption_info"


@dataclass
class Notices:
    """Of this process, which runs the function once."""

    are_watched: bool = False
    was_read: bool = False


NOTICES = Notices()


def watch_notices() -> None:
    """Once per process. Without effect in a Ray older than 2.58, which notifies nobody."""
    from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils as Utils

    original = getattr(Utils, METHOD, None)
    if original is None or NOTICES.are_watched:
        return

    @functools.wraps(original)
    def note_and_return(self: Any) -> Any:
        found = original(self)
        NOTICES.was_read |= found is not None
        return found

    setattr(Utils, METHOD, note_and_return)
    NOTICES.are_watched = True


def read_notice() -> Any:
    """Ray's PreemptionInfo as it has reached this rank, or None. Asks no other rank."""
    if not NOTICES.are_watched:
        return None
    from ray.train.v2._internal.execution.context import get_train_context

    found = get_train_context().preemption_context.preemption_info
    NOTICES.was_read |= found is not None
    return found
