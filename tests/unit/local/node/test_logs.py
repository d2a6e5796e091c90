"""Where the last lines of a log begin."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.local.node.logs import tail_offset


@pytest.fixture(scope="module")
def log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "log"


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"bc"]), max_size=20).map(b"".join), st.integers(-1, 12))
def test_the_tail_is_the_last_lines(log: Path, data: bytes, lines: int) -> None:
    log.write_bytes(data)
    complete = [part + b"\n" for part in data.split(b"\n")[:-1]]
    complete += [rest] if (rest := data.rpartition(b"\n")[2]) else []
    assert data[tail_offset(log, lines) :] == b"".join(complete[-lines:] if lines > 0 else [])
