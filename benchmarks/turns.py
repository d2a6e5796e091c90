"""Shared by all benchmarks that compare: the rounds in which the ways take turns, and the verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

from benchmarks.machine import wait_until_quiet
from railhead.cli.local import TimedConsole
from railhead.local.session import Session

APPLIED, BY_HAND = "TrainJob", "by hand"
Ways = Mapping[str, Callable[[Path], float]]


def alternate(ways: Iterable[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yields each round with each way. The order changes, so that no way is always the one that runs second."""
    for number in range(rounds):
        for what in sorted(ways, reverse=number % 2 == 0):
            yield number, what


class TakesTurns:
    """Several ways of doing the same, next to one session; the order changes from round to round.

    Attributes:
        seconds: what each way returned, or another number with the `unit`.
    """

    def __init__(self, session: Session, console: TimedConsole, ways: Ways, *, unit: str = "s") -> None:
        self._unit = unit
        self._session = session
        self._console = console
        self._ways = ways
        self.seconds: dict[str, list[float]] = {what: [] for what in ways}

    def run_rounds(self, wanted: int) -> None:
        for number, what in alternate(self._ways, wanted):
            wait_until_quiet()
            storage = self._session.folder / f"{what.replace(' ', '-').lower()}-{number}"
            storage.mkdir()
            seconds = self._ways[what](storage)
            self.seconds[what].append(seconds)
            summary = f"{seconds:.2f} {self._unit}; load {os.getloadavg()[0]:.1f}"
            self._console.echo(f"round {number + 1}, {what}: {summary}")


def describe(what: str, times: Mapping[str, list[float]], *, of: str, beside: str, bound: float) -> int:
    """Prints the verdict on the ratio of two medians; returns the exit code."""
    mine, theirs = median(times[of]), median(times[beside])
    ratio = mine / theirs
    print(f"\n{what}, median of {len(times[of])}:")
    print(f"{of} {mine:.2f} s, {beside} {theirs:.2f} s, ratio {ratio:.3f}; the bound is {bound}")
    return 0 if ratio <= bound else 1
