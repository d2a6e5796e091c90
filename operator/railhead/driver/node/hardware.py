"""What a container tells of its GPUs and its memory.

NVML, the library of NVIDIA's driver, tells how many GPUs answer in this pod; a GPU that is lost does not. The kernel
tells in the container's cgroup how many of its processes it has killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from pathlib import Path
from typing import Callable, Optional

TIMEOUT = 3.0  # seconds: a GPU that is lost may hold the call


def begin_count(*, timeout: float = TIMEOUT) -> Callable[[], Optional[int]]:
    """The result waits for the number; None without the library, if it reports an error, or after `timeout` seconds."""
    found: list[Optional[int]] = []
    thread = threading.Thread(target=lambda: found.append(_count()), daemon=True)
    thread.start()

    def wait() -> Optional[int]:
        thread.join(timeout)
        return found[0] if found else None

    return wait


def _count() -> Optional[int]:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    number, device = ctypes.c_uint(), ctypes.c_void_p()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)):
        return None
    answers = [nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) for index in range(number.value)]
    return answers.count(0)


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
