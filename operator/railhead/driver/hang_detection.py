"""Detects training that reports nothing for too long (spec.progressDeadlineSeconds) and fails the attempt.

train_func runs in a thread, so Ray's health checks do not notice when it hangs. Measured here, with a
monotonic clock: neither trouble between driver and operator nor a clock jump counts as a hang.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, Callable, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.reporting.progress import Progress
from railhead.driver.reporting.spool import Hang, Spool

LOOK_INTERVAL = 0.5  # seconds
LONGEST_LOOK = 5.0  # a driver that was suspended for longer saw no reports meanwhile, so no more than this counts
STACKS_TIMEOUT = 20.0
PLACES = 3  # how many a message names


class HangDetector:
    """How long training has reported nothing. Pure: the caller passes the time."""

    def __init__(self) -> None:
        self._known: object = None
        self._looked_at = 0.0
        self._seconds = 0.0

    def count(self, progress: Progress, *, now: float) -> float:
        """Seconds since the last report of all ranks or since the worker group began to train; 0 while none trains."""
        news = (progress.reports, progress.commits, progress.processes) if progress.is_training else None
        if news is None or news != self._known:
            self._seconds = 0.0
        else:
            self._seconds += min(now - self._looked_at, LONGEST_LOOK)
        self._known, self._looked_at = news, now
        return self._seconds


def watch_for_hang(
    spool: Spool, *, deadline: Optional[float], log: Callable[[str], None], on_fatal: Callable[[Failure], None]
) -> None:
    """Runs until a hang ends the attempt. `deadline` applies until the operator sends another one."""
    silence = HangDetector()
    while True:
        time.sleep(LOOK_INTERVAL)
        seconds = silence.count(Progress.from_dict(spool.read()), now=time.monotonic())
        limit = spool.read_deadline(deadline)
        if limit is None or seconds < limit:
            continue
        log(f"training has reported nothing for {seconds:.0f} s (spec.progressDeadlineSeconds)")
        stacks = _wait_for_stacks(spool)
        if silence.count(Progress.from_dict(spool.read()), now=time.monotonic()) < limit:
            continue
        for line in describe_stacks(stacks):
            log(line)
        message = explain_hang(stacks, limit=limit)
        odd = find_odd_one(stacks or [])
        if stacks is None or not _hand_over(spool, Hang(message, odd["rank"] if odd else -1)):
            suspect = odd["pod"] if odd else ""
            on_fatal(Failure(FailureClass.HANG, "ProgressDeadlineExceeded", message, suspect_pod=suspect))
            return
        silence = HangDetector()  # the controller may look at the nodes for a while before it restarts the group


def _hand_over(spool: Spool, hang: Hang) -> bool:
    """Whether Ray Train's controller takes the hang for a failure of the worker group: it may restart it in place."""
    spool.write_hang(hang)
    until = time.monotonic() + STACKS_TIMEOUT
    while spool.has_hang() and time.monotonic() < until:
        time.sleep(0.1)
    return spool.take_hang() is None


def _wait_for_stacks(spool: Spool) -> Optional[list[dict[str, Any]]]:
    """As in `train_controller.stacks`; None when Ray Train's controller does not respond either."""
    spool.ask_for_stacks()
    until = time.monotonic() + STACKS_TIMEOUT
    while time.monotonic() < until:
        stacks = spool.read_stacks()
        if stacks is not None:
            return stacks
        time.sleep(0.1)
    return None


def explain_hang(stacks: Optional[list[dict[str, Any]]], *, limit: float) -> str:
    """For the status: where the ranks are, the smallest group first, since the others are waiting for it."""
    prefix = f"training reported nothing for {limit:.0f} s (spec.progressDeadlineSeconds)"
    if stacks is None:
        return (
            f"{prefix}, and Ray Train's controller does not respond; check for storage that does not respond "
            "and for run.callbacks that block"
        )
    ranked = _rank_places(stacks)
    where = "; ".join(_describe(ranks, place) for place, ranks in ranked[:PLACES])
    more = f"; and {len(ranked) - PLACES} more places" if len(ranked) > PLACES else ""
    return (
        f"{prefix}: {where}{more}. The stacks are in the head's log. If training is merely slow, raise the limit; "
        "this takes effect on the running job"
    )


def find_odd_one(stacks: list[dict[str, Any]]) -> Optional[dict[str, Any]]:
    """The only rank that is alone at its place, so that the others wait for it; None if there is no such rank."""
    alone = [ranks[0] for _, ranks in _rank_places(stacks) if len(ranks) == 1]
    return alone[0] if len(alone) == 1 < len(stacks) else None


def _rank_places(stacks: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rank in stacks:
        places[rank["place"]].append(rank)
    return sorted(places.items(), key=lambda item: (len(item[1]), item[1][0]["rank"]))


def _describe(ranks: list[dict[str, Any]], place: str) -> str:
    is_one = len(ranks) == 1
    if not place:
        return f"{_name(ranks)} {'does' if is_one else 'do'} not respond"
    return f"{_name(ranks)} {'is' if is_one else 'are'} {place}"


def describe_stacks(stacks: Optional[list[dict[str, Any]]]) -> list[str]:
    """For the log: each distinct stack once."""
    same: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rank in stacks or []:
        same[rank["stack"]].append(rank)
    lines = []
    for stack, ranks in sorted(same.items(), key=lambda item: len(item[1])):
        text = stack or "no response: native code holds the GIL, or the process is stopped"
        lines += [f"stack of {_name(ranks)}:", *(f"  {line}" for line in text.splitlines())]
    return lines


def _name(ranks: list[dict[str, Any]]) -> str:
    """For example: ranks 0, 2-7; or: rank 1 (pod x)."""
    numbers = sorted(rank["rank"] for rank in ranks)
    if len(numbers) == 1:
        pod = ranks[0]["pod"]
        return f"rank {numbers[0]}" + (f" (pod {pod})" if pod else "")
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans[:8]]
    return "ranks " + ", ".join(texts) + (", ..." if len(spans) > 8 else "")
