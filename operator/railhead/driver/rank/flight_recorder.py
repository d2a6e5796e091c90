"""Switches torch's flight recorder of NCCL's collectives on, in a rank's process, and reads it while the rank hangs.

When a collective times out, torch writes the record of each rank to a file before it aborts the processes; the file's
name begins with the process's id, so that no earlier process's record is taken for it. What the user's environment sets
stays. A rank without a GPU, or an image without torch, has no recorder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Optional

from railhead.contract import environment
from railhead.driver.container.packages import find_version, parse_version
from railhead.driver.rank.flight_dump import read_dump

_ENTRIES = "2000"  # torch's advice
# The names of torch 2.8 and newer, and those of older ones, which newer ones read as well and call deprecated.
_SIZE = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILE = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_SWITCHES = ("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ENABLE_MONITORING")


def switch_on_recorder() -> None:
    """Sets what torch reads; call it before torch's process group is created, in the rank's process."""
    import ray

    if ray.get_gpu_ids():
        set_variables(os.environ, torch=find_version("torch"), prefix=build_prefix(os.getpid()))


def build_prefix(pid: int) -> str:
    """Returns the beginning of the file's path; torch appends the rank."""
    return str(Path(os.environ[environment.TEMP], f"flight-record-{pid}-"))


def set_variables(variables: MutableMapping[str, str], *, torch: str, prefix: str) -> None:
    """Sets the variables of torch's flight recorder. `torch`: its version, empty without it. The user's variables
    win, under either of torch's names."""
    version = parse_version(torch)
    if version is None:
        return
    for names, value in ((_SIZE, _ENTRIES), (_FILE, prefix)):
        if not any(name in variables for name in names):
            variables[names[version < (2, 8)]] = value
    for name in _SWITCHES:
        variables.setdefault(name, "1")


def read_own_record() -> Optional[bytes]:
    """Returns, on a worker, what `flight_dump` makes of its record; None without one."""
    collectives = getattr(getattr(sys.modules.get("torch"), "_C", None), "_distributed_c10d", None)
    dumps = [getattr(collectives, name, None) for name in ("_dump_nccl_trace", "_dump_fr_trace")]
    records = [dump() for dump in dumps if dump is not None]
    # one of them is empty
    if records:
        return read_dump(max(records, key=len))
    return None
