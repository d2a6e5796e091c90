"""NVML's numbers of a real GPU, compared with those of nvidia-smi."""

from __future__ import annotations

import ctypes
import subprocess

from railhead.driver.rank.gpu_use import read_gpus
from tests.gpu.devices import GPUS, needs_gpus


@needs_gpus(1)
def test_a_rank_reads_the_memory_and_the_use_of_its_gpu() -> None:
    fields = "--query-gpu=memory.total,uuid"
    command = ["nvidia-smi", "-i", GPUS[0], fields, "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    total, uuid = done.stdout.strip().split(", ")
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == 0
    for name in (GPUS[0], uuid):
        [found] = read_gpus(nvml, [name])
        assert found.total // 2**20 == int(total)
        assert 0 < found.used <= found.total and 0 <= found.percent <= 100
