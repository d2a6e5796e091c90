"""Where each rank is, for `railhead stacks`, which starts this in the head pod."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from railhead.contract import environment
from railhead.driver.hang_detection import wait_for_stacks
from railhead.driver.reporting.mailbox import Mailbox

REQUESTER = "exec"
WAIT_SECONDS = 15.0  # Ray Train's controller asks the ranks at its next poll, and waits for them for 10 s


def run_stacks(variables: Mapping[str, str]) -> None:
    """Prints the stacks as a list in JSON. Exits with a message if there are none, or another process collects them."""
    folder = Path(variables[environment.TEMP])
    mailbox = Mailbox(folder)
    if not mailbox.read_newest_fit().progress.processes:
        sys.exit("no rank trains yet, or none any more")
    with (folder / "stacks.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("another `railhead stacks` collects them now; try again in a few seconds")
        stacks = wait_for_stacks(mailbox, REQUESTER, WAIT_SECONDS)
    if stacks is None:
        sys.exit(
            f"Ray Train's controller does not respond within {WAIT_SECONDS:.0f} s: the ranks start, restart or end, or "
            "the storage does not respond, or one of run.callbacks blocks"
        )
    print(json.dumps([asdict(stack) for stack in stacks]))
