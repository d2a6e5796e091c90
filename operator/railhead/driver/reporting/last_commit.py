"""After SIGTERM the driver waits for one more committed checkpoint, so that no training is lost.

Only that of a report that began after the ranks were notified has the latest state: an upload in the background, or a
commit, may end late.
"""

from __future__ import annotations

import time
from typing import Callable

from railhead.driver.reporting.progress import Progress

LOOK_SECONDS = 0.1
# Training, or finishing, which has its own outcome. In any other state there is nothing to save.
_WORTH_WAITING = ("RUNNING", "FINISHED")


def wait_for_commit(
    read: Callable[[], Progress],
    *,
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """Whether one arrived; waits at most `seconds`, and no longer than the worker group trains."""
    progress, deadline = read(), monotonic() + seconds
    while progress.state in _WORTH_WAITING and monotonic() < deadline:
        sleep(LOOK_SECONDS)
        progress = read()
        if progress.has_last_commit and progress.state == "RUNNING":
            return True
    return False
