"""How busy this machine is, and with whose work: from /proc, in CPU seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from railhead.driver.container.pod_processes import list_descendants, read_process_table
from railhead.local.processes import Identity, is_alive

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 3, 4
QUIET = 0.1  # of all processors; the control plane idles at a few per cent
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.5  # what a process does after its last sample counts as the work of others


class Meter:
    """While entered, separates the CPU time of our own descendants from that of all other processes."""

    def __init__(self) -> None:
        self._ours: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self._began, self._busy = time.monotonic(), read_busy()
        self._before = self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.busy = read_busy() - self._busy
        self._done.set()
        self._thread.join()

    @property
    def ours(self) -> float:
        return sum(used - self._before.get(pid, 0.0) for pid, used in self._ours.items())

    @property
    def share_of_others(self) -> float:
        """The share of all processors, 0 to 1."""
        return max(self.busy - self.ours, 0.0) / (self.seconds * (os.cpu_count() or 1))

    def _run(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> dict[int, float]:
        self._ours |= {pid: read_used(pid) for pid in list_tree(os.getpid())}
        return dict(self._ours)


def list_tree(pid: int) -> list[int]:
    """Returns the process and all that it has started, directly or not."""
    return [pid, *list_descendants(pid, read_process_table())]


def read_busy() -> float:
    """CPU seconds of all processors together since boot."""
    numbers = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(numbers) - numbers[_IDLE] - numbers[_IOWAIT]) / _TICKS


def read_used(pid: int) -> float:
    """CPU seconds of one process since its start; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def read_processes(identities: Mapping[str, Identity]) -> dict[str, float]:
    return {name: read_used(identity.pid) for name, identity in identities.items() if is_alive(identity)}


def wait_until_quiet() -> None:
    """Waits until other work on this machine pauses, but at most `PATIENCE_SECONDS`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sample_busy(1.0) > QUIET and time.monotonic() < deadline:
        pass


def sample_busy(seconds: float) -> float:
    """The share of all processors that is in use now, 0 to 1."""
    began, before = time.monotonic(), read_busy()
    time.sleep(seconds)
    return (read_busy() - before) / ((time.monotonic() - began) * (os.cpu_count() or 1))
