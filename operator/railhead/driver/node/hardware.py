"""How many GPUs answer in this pod, by NVML, the library of NVIDIA's driver; a GPU that is lost does not."""

from __future__ import annotations

import ctypes
import threading
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
