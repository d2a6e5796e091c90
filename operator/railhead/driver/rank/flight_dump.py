"""Turns a dump of torch's flight recorder, a pickle, into JSON, in a process of its own with little memory and time.

That process's unpickler knows no classes and no functions. It must import nothing but the standard library. The JSON
has torch's names (torch/csrc/distributed/c10d/FlightRecorder.hpp), of which it keeps those that tell collectives apart:

    {"version", "pg_config": {name: {"name", "desc", "ranks"}}, "stacks": [["file:line function", ...], ...],
     "entries": [{"process_group": [name, description], "collective_seq_id", "p2p_seq_id", "is_p2p", "profiling_name",
                  "state", "retired", "time_created_ns", "input_sizes", "input_dtypes", "output_sizes",
                  "output_dtypes", "stack": index into stacks}, ...]}

Entries are in the order of the calls; the oldest, and stacks, are left out if there is no room.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, Optional

INPUT_BYTES = 8 * 2**20
OUTPUT_BYTES = 2**20
STACKS_BYTES = 2**18
MEMORY_BYTES = 512 * 2**20
SECONDS = 10
_CHARS = 256
_TENSORS = 32
_DIMENSIONS = 8
_FRAMES = 24
_GROUPS = 256
_RANKS_CHARS = 65_536
_START = f"import sys; sys.path.insert(0, sys.argv[1]); from {__name__} import main; main()"


def read_dump(data: bytes, *, timeout: float = SECONDS) -> Optional[bytes]:
    """Returns the JSON of a pickle, compressed by zlib; None if the pickle is torn, too large or without entries.

    Raises OSError when no process can be started.
    """
    if len(data) > INPUT_BYTES:
        return None
    # The bundle, or the folder of the sources.
    root = str(Path(__file__).parents[3])
    libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    command = [sys.executable, "-I", "-S", "-c", _START, root]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=timeout, env=libraries)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == 0:
        return zlib.compress(done.stdout)
    return None


def read_file(file: Path, *, timeout: float = SECONDS) -> Optional[bytes]:
    """Reads a dump from its file as `read_dump` does. Raises OSError."""
    with file.open("rb") as stream:
        return read_dump(stream.read(INPUT_BYTES + 1), timeout=timeout)


def main() -> None:
    """Reads the pickle from standard input, writes the JSON to standard output, or exits with code 1."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    text = write_json(_Unpickler(io.BytesIO(sys.stdin.buffer.read(INPUT_BYTES + 1))).load())
    if not text:
        sys.exit(1)
    sys.stdout.write(text)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a dump of torch has no {module}.{name}")


def write_json(dump: Any) -> str:
    """Returns at most OUTPUT_BYTES of ASCII; empty without entries. Raises what malformed dumps lead to."""
    room = OUTPUT_BYTES - 1024
    groups = {
        _text(name): {key: _text(config.get(key, ""), _RANKS_CHARS) for key in ("name", "desc", "ranks")}
        for name, config in list(dump.get("pg_config", {}).items())[:_GROUPS]
    }
    if len(json.dumps(groups)) > room // 2:
        groups = {}
    room -= len(json.dumps(groups))
    stacks: dict[str, int] = {}
    room_for_stacks = STACKS_BYTES
    entries: list[str] = []
    for source in reversed(dump["entries"]):
        stack = json.dumps([_write_frame(frame) for frame in source.get("frames", [])[:_FRAMES]])
        if stack not in stacks and len(stack) + 2 <= room_for_stacks:
            stacks[stack] = len(stacks)
            room_for_stacks -= len(stack) + 2
        entry = json.dumps(_write_entry(source, stacks.get(stack)))
        room -= len(entry) + 2
        # The stacks follow, and take this much at most.
        if room < STACKS_BYTES:
            break
        entries.append(entry)
    if not entries:
        return ""
    version = json.dumps(_text(dump.get("version", "")))
    head = f'"version": {version}, "pg_config": {json.dumps(groups)}'
    return f'{{{head}, "entries": [{", ".join(entries[::-1])}], "stacks": [{", ".join(stacks)}]}}'


def _write_entry(entry: Any, stack: Optional[int]) -> dict[str, Any]:
    name, description = entry["process_group"]
    return {
        "process_group": [_text(name), _text(description)],
        "collective_seq_id": int(entry["collective_seq_id"]),
        "p2p_seq_id": int(entry.get("p2p_seq_id", 0)),
        "is_p2p": bool(entry.get("is_p2p", False)),
        "profiling_name": _text(entry["profiling_name"]),
        "state": _text(entry["state"]),
        "retired": bool(entry.get("retired", False)),
        "time_created_ns": int(entry.get("time_created_ns", 0)),
        "input_sizes": _sizes(entry.get("input_sizes", [])),
        "input_dtypes": [_text(each) for each in entry.get("input_dtypes", [])[:_TENSORS]],
        "output_sizes": _sizes(entry.get("output_sizes", [])),
        "output_dtypes": [_text(each) for each in entry.get("output_dtypes", [])[:_TENSORS]],
        **({} if stack is None else {"stack": stack}),
    }


def _write_frame(frame: Any) -> str:
    return f"{_text(frame['filename'])}:{int(frame['line'])} {_text(frame['name'])}"


def _sizes(tensors: Any) -> list[list[int]]:
    return [[int(size) for size in tensor[:_DIMENSIONS]] for tensor in tensors[:_TENSORS]]


def _text(value: Any, limit: int = _CHARS) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is expected, not a {type(value).__name__}")
    return value[:limit]
