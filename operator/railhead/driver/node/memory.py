"""What the kernel tells of this container's memory, in its cgroup."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_COUNTER = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_NO_LIMIT = 2**60  # version 1 says it as a very large number


def read_memory(cgroup: Path = CGROUP) -> tuple[int, int]:
    """(processes that the kernel killed in this container for its memory limit, the limit in bytes), 0 if unknown."""
    kills, limit = "", ""
    for folder, events, maximum in (
        (cgroup, "memory.events", "memory.max"),
        (cgroup / "memory", "memory.oom_control", "memory.limit_in_bytes"),
    ):
        with contextlib.suppress(OSError):
            kills = (folder / events).read_text()
            limit = (folder / maximum).read_text().strip()
    counted = _COUNTER.search(kills)
    bytes_ = int(limit) if limit.isdigit() else 0
    return int(counted[1]) if counted else 0, bytes_ if bytes_ < _NO_LIMIT else 0
