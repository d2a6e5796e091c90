"""Gives Ray's node more time to come up than Ray does.

`ray start` waits 30 s, a number in its code, until the head knows of the node. A node that
reads its image for the first time, or has many pods to start, needs longer; the pod would
end and another one begin, with no better luck.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable

START_SECONDS = 180.0
LOOK_INTERVAL = 0.5


def be_patient(services: Any, *, seconds: float = START_SECONDS, sleep: Callable[[float], None] = time.sleep) -> None:
    """Makes `services.get_node` ask again for so long before it says that the node is not known.

    Source: `Node.__init__` in `ray/_private/node.py`, which calls it in its loop of 30 s. In a Ray
    that does not have it, nothing is changed.
    """
    ask = getattr(services, "get_node", None)
    if ask is None:
        return

    @functools.wraps(ask)
    def get_node(*arguments: Any, **options: Any) -> Any:
        tries = int(seconds / LOOK_INTERVAL)
        for _ in range(tries):
            try:
                return ask(*arguments, **options)
            except RuntimeError:  # not known yet
                sleep(LOOK_INTERVAL)
        return ask(*arguments, **options)

    services.get_node = get_node
