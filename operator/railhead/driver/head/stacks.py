"""Shows where the ranks are: the entry point's role `stacks`, and the lines of the head's log about a hang."""

from __future__ import annotations

import fcntl
import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Callable, Optional

from railhead.contract import environment
from railhead.contract.text import write_ranks
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import Stack

# In the paths of the debuggers' files.
DEBUGGERS = ("/pdb.py", "/bdb.py", "/debugpy/", "/pydevd")
REQUESTER = "exec"
# Ray Train's controller asks the ranks at its next poll, and waits for them for 10 s.
WAIT_SECONDS = 15.0
LOOK_SECONDS = 0.1


def wait_for_stacks(mailbox: Mailbox, requester: str, seconds: float) -> Optional[list[Stack]]:
    """Asks for each rank's stack and returns them, or None when Ray Train's controller does not respond either."""
    mailbox.ask_for_stacks(requester)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stacks = mailbox.read_stacks(requester)
        if stacks is not None:
            return stacks
        time.sleep(LOOK_SECONDS)
    return None


def is_debugged(stacks: list[Stack]) -> bool:
    """Returns whether a rank waits for the commands of a debugger."""
    return any(_is_in_debugger(stack) for stack in stacks)


def _is_in_debugger(stack: Stack) -> bool:
    return any(file in stack.text for file in DEBUGGERS)


def find_lone_rank(stacks: list[Stack]) -> Optional[Stack]:
    """Returns the only rank that is alone at its place, so that the others wait for it; None without one."""
    alone = [ranks[0] for _, ranks in group_ranks(stacks, attrgetter("place")) if len(ranks) == 1]
    if len(alone) == 1 < len(stacks):
        return alone[0]
    return None


def group_ranks(stacks: list[Stack], read: Callable[[Stack], str]) -> list[tuple[str, list[Stack]]]:
    """Returns the ranks with the same place or text together, the smallest group first."""
    groups: dict[str, list[Stack]] = defaultdict(list)
    for rank in stacks:
        groups[read(rank)].append(rank)

    def get_size(group: tuple[str, list[Stack]]) -> tuple[int, int]:
        ranks = group[1]
        return len(ranks), ranks[0].rank

    return sorted(groups.items(), key=get_size)


def describe_stacks(stacks: Optional[list[Stack]]) -> list[str]:
    """Returns the lines for the log: each distinct stack once."""
    lines = []
    for stack, ranks in group_ranks(stacks or [], attrgetter("text")):
        text = stack or "no response: native code holds the GIL, or the process is stopped"
        lines.append(f"stack of {name_ranks(ranks)}:")
        lines += [f"  {line}" for line in text.splitlines()]
    return lines


def name_ranks(ranks: list[Stack]) -> str:
    """Names the ranks in the plural or the singular: ranks 0 and 2-7; rank 1 (pod x)."""
    text = write_ranks(rank.rank for rank in ranks)
    if len(ranks) == 1 and ranks[0].pod:
        return f"{text} (pod {ranks[0].pod})"
    return text


def run_stacks(variables: Mapping[str, str]) -> None:
    """Prints the stacks as a list in JSON. Exits with a message if there are none, or another process collects them."""
    folder = Path(variables[environment.TEMP])
    mailbox = Mailbox(folder)
    if not mailbox.read_newest_fit().progress.processes:
        sys.exit("no rank trains yet, or none any more")
    # The answer is one file for all who ask by this role: a second one would delete that of the first.
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
