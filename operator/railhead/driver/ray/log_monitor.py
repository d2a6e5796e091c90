"""spec.logs.forward in a worker pod: what Ray's log monitor sends from here to the head.

With All everything; with None there is no log monitor; with Rank0 the lines of the process that is rank 0,
from its first mark on. The rest never leaves the pod, so that neither Ray's control store nor the driver
carries what nobody shows.
"""

from __future__ import annotations

from typing import Any

from railhead.driver.logs.output import find_mark

ONLY_RANK_0 = "RAILHEAD_ONLY_RANK_0"  # in the environment of a worker pod's Ray


class RankFilter:
    """Keeps the lines of rank 0; which rank a process is, its marks tell."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}

    def select(self, pid: Any, lines: list[str]) -> list[str]:
        """`pid`: a process id, or the name of one of Ray's own daemons."""
        kept = []
        for line in lines:
            mark = find_mark(line)
            if mark is not None:
                self._ranks[pid] = mark.rank
            if self._ranks.get(pid) == 0:
                kept.append(line)
        return kept


def install_filter(raylet: Any) -> None:
    """`raylet`: the module `ray._raylet`. Source: `LogMonitor` in `ray/_private/log_monitor.py`."""
    filter_ = RankFilter()

    class GcsClient(raylet.GcsClient):  # type: ignore[misc]  # Ray's is compiled: none of its methods can be set
        def publish_logs(self, data: dict[str, Any]) -> None:
            lines = filter_.select(data["pid"], data["lines"])
            if lines:
                self.__getattr__("publish_logs")({**data, "lines": lines})  # of an inner client

    raylet.GcsClient = GcsClient
