"""Reads the use of a rank's GPUs in the rank's process, from NVML, the library of NVIDIA's driver.

A thread asks NVML: a call may hang when a GPU is lost, and the rank must answer Ray Train's controller meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path
from typing import Any, Mapping, Tuple

from railhead.contract import environment
from railhead.contract.job_input import FILE, JobInput
from railhead.driver.mailbox.heartbeat import GpuUse
from railhead.driver.rank import steps

PERIOD_SECONDS = 10.0  # of the controller's questions


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def watch_gpus(variables: Mapping[str, str] = os.environ) -> None:
    """Starts the thread in a job with spec.metrics; without effect for a rank without GPUs, or without NVML."""
    names = [name for name in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if not names or not _has_metrics(variables):
        return
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return
    threading.Thread(target=_watch, args=(nvml, names), name="railhead-gpus", daemon=True).start()


def _has_metrics(variables: Mapping[str, str]) -> bool:
    """Returns whether the job has spec.metrics, by the input of this rank's pod."""
    folder = variables.get(environment.INPUT)
    if not folder:
        return False
    try:
        job = JobInput.from_json(Path(folder, FILE).read_text())
    except (OSError, ValueError, TypeError):
        # A rank trains without the use of its GPUs rather than not at all.
        return False
    return job.metrics_port is not None


def _watch(nvml: Any, names: list[str]) -> None:
    if nvml.nvmlInit_v2():
        return
    while True:
        steps.STEPS.gpus = read_gpus(nvml, names)
        steps.STEPS.gpus_clock = time.monotonic()
        time.sleep(PERIOD_SECONDS)


def read_gpus(nvml: Any, names: list[str]) -> Tuple[GpuUse, ...]:
    """Returns the use of the GPUs of these names, as in CUDA_VISIBLE_DEVICES, without those that NVML cannot read."""
    found = []
    for number, name in enumerate(names):
        device = ctypes.c_void_p()
        memory = _Memory()
        utilization = _Utilization()
        if name.isdigit():
            is_wrong = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(device))
        else:
            is_wrong = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device))
        if is_wrong or nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)):
            continue
        # MIG has none.
        if not nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref(utilization)):
            found.append(GpuUse(number, memory.used, memory.total, utilization.gpu))
    return tuple(found)
