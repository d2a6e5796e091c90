"""How busy this machine is, and which of its processors' time went to whom: /proc, in seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from railhead.local.processes import Identity, is_alive

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 3, 4
QUIET = 0.1  # of all processors; the control plane idles at a few per cent
PATIENCE_SECONDS = 60.0


def read_busy() -> float:
    """Of all processors together since boot."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(numbers) - numbers[_IDLE] - numbers[_IOWAIT]) / _TICKS


def read_process(identity: Identity) -> float:
    """Of one process since its start; 0 when it is gone."""
    if not is_alive(identity):
        return 0.0
    fields = Path(f"/proc/{identity.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def read_processes(identities: Mapping[str, Identity]) -> dict[str, float]:
    return {name: read_process(identity) for name, identity in identities.items()}


def wait_until_quiet() -> float:
    """Until other people's work pauses, but not for long; the share of all processors in use then, 0 to 1."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (busy := sample_busy(1.0)) > QUIET and time.monotonic() < deadline:
        pass
    return busy


def sample_busy(seconds: float) -> float:
    """The share of all processors that is in use now, 0 to 1."""
    began, before = time.monotonic(), read_busy()
    time.sleep(seconds)
    return (read_busy() - before) / ((time.monotonic() - began) * (os.cpu_count() or 1))
