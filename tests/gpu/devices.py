"""The GPUs of this machine."""

from __future__ import annotations

import os
import subprocess

import pytest


def find_gpus() -> list[str]:
    """Their numbers, as in CUDA_VISIBLE_DEVICES."""
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    found = done.stdout.split()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return found if visible is None else [gpu for gpu in visible.split(",") if gpu in found]


GPUS = find_gpus()


def needs_gpus(number: int) -> pytest.MarkDecorator:
    reason = f"needs {number} NVIDIA GPUs; nvidia-smi lists {len(GPUS)} on this machine, so this was not shown"
    return pytest.mark.skipif(len(GPUS) < number, reason=reason)
