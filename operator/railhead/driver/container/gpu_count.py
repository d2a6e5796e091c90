"""Counts the GPUs that answer in this pod.

NVML, the library of NVIDIA's driver, tells how many GPUs answer; a GPU that is lost does not.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Callable, Optional

# A GPU that is lost may hold the call.
GPU_PATIENCE_SECONDS = 3.0


def begin_count_of_gpus(*, timeout: float = GPU_PATIENCE_SECONDS) -> Callable[[], Optional[int]]:
    """Returns a function that waits for the number of GPUs that answer, for at most `timeout` seconds.

    That returns None after them, without the library, and if it reports an error.
    """
    found: list[Optional[int]] = []

    def count() -> None:
        found.append(_count_gpus())

    thread = threading.Thread(target=count, daemon=True)
    thread.start()

    def wait() -> Optional[int]:
        thread.join(timeout)
        if found:
            return found[0]
        return None

    return wait


def _count_gpus() -> Optional[int]:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    number = ctypes.c_uint()
    device = ctypes.c_void_p()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)):
        return None
    answers = [nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) for index in range(number.value)]
    return answers.count(0)
