"""Cells of the tables: percentiles of a turn, medians of the turns of one operator with one number of jobs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median, quantiles
from typing import Protocol, TypeVar


class Turn(Protocol):
    """The figures of one turn, of any mode."""

    @property
    def name(self) -> str: ...

    @property
    def jobs(self) -> int: ...


T = TypeVar("T", bound=Turn)


def find_percentile(seconds: Iterable[float], percent: int) -> float:
    """Of two values or more."""
    return quantiles(seconds, n=100, method="inclusive")[percent - 1]


def group_turns(turns: Iterable[T]) -> dict[tuple[int, str], list[T]]:
    """By number of jobs and operator."""
    groups: dict[tuple[int, str], list[T]] = {}
    for each in turns:
        groups.setdefault((each.jobs, each.name), []).append(each)
    return groups


def describe_medians(
    turns: Sequence[T], read: Callable[[T], Sequence[float | None]], *, digits: int, factor: float = 1.0
) -> str:
    """One or several figures, `1.5, 2.0`; a dash when a turn lacks one."""
    cells = []
    for column in zip(*(read(turn) for turn in turns), strict=True):
        known = [value for value in column if value is not None]
        cells.append(f"{factor * median(known):.{digits}f}" if len(known) == len(turns) else "-")
    return "-" if set(cells) == {"-"} else ", ".join(cells)
