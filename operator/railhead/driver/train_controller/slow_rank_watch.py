"""Finds the ranks that compute slowly for long, by the sections that training code marks. Pure: the caller passes the
time.

A window is a minute of a group's training. In each, a rank's mean time per section is compared with that of the ranks'
median, and with its own best of ten windows: the smaller quotient is its score. The median rather than the fastest,
because of many ranks with unequal batches one is always fast by chance. A rank is slow after ten windows on end below
0.75; one better window ends that. Windows without a section say nothing of a rank. A new group begins again.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Deque, Tuple

from railhead.contract.report import MAX_SLOW_RANKS, SlowRank
from railhead.driver.rank.steps import RankProgress

THRESHOLD = 0.75
WINDOW_SECONDS = 60.0
WINDOWS = 10  # on end
FIRST_SECTIONS = 20  # of a process, among which compilers and caches may take any time
LONGEST_WINDOWS = 2.0  # after a pause of the head, no more count


class _Rank:
    """One rank's process.

    Attributes:
        marks: what it had said at the beginnings of the last `WINDOWS` windows and of the current one.
        score: of the last window.
        slow_windows: on end.
        since: when they began (RFC 3339).
    """

    def __init__(self, beat: RankProgress) -> None:
        self.marks: Deque[RankProgress] = deque([beat], WINDOWS + 1)
        self.score = 1.0
        self.slow_windows = 0.0
        self.since = ""
        self._best = math.inf  # seconds per section over `WINDOWS`

    def close_window(self, beat: RankProgress, *, median: float, length: float, since: str) -> None:
        self.score = min(median, self._best) / _mean(self.marks[-1], beat)
        if self.score >= THRESHOLD:
            self.slow_windows = 0.0
        else:
            self.since = self.since if self.slow_windows else since
            self.slow_windows += length
        self.marks.append(beat)
        if len(self.marks) > WINDOWS:
            self._best = min(self._best, _mean(self.marks[0], beat))


def _mean(begin: RankProgress, end: RankProgress) -> float:
    """Returns the seconds per section in between; 0 without one."""
    sections = end.sections - begin.sections
    if sections:
        return (end.section_seconds - begin.section_seconds) / sections
    return 0.0


class SlowRankWatch:
    """Looks at the ranks of one group. Who is slow changes at most once in `WINDOWS` windows, so that it is news."""

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}
        self._shown: dict[int, str] = {}  # slow ranks -> since when
        self._windows_shown = float(WINDOWS)
        self._began = (0.0, "")  # the window, by both clocks

    def look(self, beats: Mapping[int, RankProgress], *, now: float, time: str) -> Tuple[SlowRank, ...]:
        """Returns the slow ranks, in order, without their pods.

        Args:
            beats: the last answers of the ranks.
            now: seconds, by a clock that never jumps.
            time: the same time in RFC 3339.
        """
        for rank, beat in beats.items():
            known = self._ranks.get(rank)
            if known is not None and beat.sections < known.marks[-1].sections:
                del self._ranks[rank]  # another process
            if rank not in self._ranks and beat.sections >= FIRST_SECTIONS:
                self._ranks[rank] = _Rank(beat)
        began, began_text = self._began
        if not began_text:
            self._began = (now, time)
        elif now - began >= WINDOW_SECONDS:
            length = min((now - began) / WINDOW_SECONDS, LONGEST_WINDOWS)
            self._close_windows(beats, length=length, since=began_text)
            self._began = (now, time)
        return tuple(
            SlowRank(rank, score=f"{self._ranks[rank].score:.2f}" if rank in self._ranks else "", since=since)
            for rank, since in self._shown.items()
        )

    def _close_windows(self, beats: Mapping[int, RankProgress], *, length: float, since: str) -> None:
        means = {rank: _mean(each.marks[-1], beats[rank]) for rank, each in self._ranks.items()}
        trained = {rank: mean for rank, mean in means.items() if mean > 0}
        if trained:
            median = statistics.median_low(trained.values())
            for rank in trained:
                self._ranks[rank].close_window(beats[rank], median=median, length=length, since=since)
        self._windows_shown += length
        found = self._list_slow()
        if found != self._shown and self._windows_shown >= WINDOWS:
            self._shown = found
            self._windows_shown = 0.0

    def _list_slow(self) -> dict[int, str]:
        slow = {rank: each for rank, each in self._ranks.items() if each.slow_windows >= WINDOWS}
        ranked = sorted((each.since != self._shown.get(rank), each.score, rank) for rank, each in slow.items())
        return {rank: slow[rank].since for rank in sorted(rank for _, _, rank in ranked[:MAX_SLOW_RANKS])}
