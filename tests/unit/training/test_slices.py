"""A rank reads what it needs of a file in few requests, and exactly that."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from railhead.training import _slices
from railhead.training._slices import Slice, SliceReader, cut_batches, join_neighbours

SIZE = 1000


@pytest.fixture
def content(tmp_path: Path) -> dict[str, bytes]:
    """Two files in the folder, and what they have."""
    found = {name: random.Random(name).randbytes(SIZE) for name in ("a", "b")}
    for name, data in found.items():
        (tmp_path / name).write_bytes(data)
    return found


class Opened:
    """Notes which files are opened and which requests they get."""

    def __init__(self, folder: Path) -> None:
        self.opened: list[str] = []
        self.requests: list[tuple[str, int, int]] = []
        self._folder = folder

    def __call__(self, name: str) -> Any:
        self.opened.append(name)
        file = LocalFileSystem().open_input_file(str(self._folder / name))
        noted = self

        class Noted:
            def read_at(self, length: int, offset: int) -> bytes:
                noted.requests.append((name, offset, length))
                data: bytes = file.read_at(length, offset)
                return data

            def close(self) -> None:
                file.close()

        return Noted()


def test_neighbours_are_read_together_and_large_ones_in_parts(
    tmp_path: Path, content: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_slices, "REQUEST_BYTES", 100)
    slices = [Slice("a", 0, 10), Slice("a", 10, 30), Slice("a", 50, 250), Slice("b", 900, 100)]
    opened = Opened(tmp_path)
    with SliceReader(opened) as reader:
        found = reader.read(slices)
        again = reader.read([Slice("b", 0, 5)])
    assert {piece: bytes(data) for piece, data in found.items()} == {
        piece: content[piece.file][piece.offset : piece.end] for piece in slices
    }
    assert [bytes(data) for data in again.values()] == [content["b"][:5]]
    parts = [("a", 50, 100), ("a", 150, 100), ("a", 250, 50)]
    assert sorted(opened.requests) == [("a", 0, 40), *parts, ("b", 0, 5), ("b", 900, 100)]
    assert opened.opened == ["a", "b"], "each file is opened once"


def test_a_file_that_is_too_short_is_an_error_with_its_name(tmp_path: Path, content: dict[str, bytes]) -> None:
    with SliceReader(Opened(tmp_path)) as reader, pytest.raises(OSError, match=f"b ends after {SIZE} bytes"):
        reader.read([Slice("b", SIZE - 1, 2)])


SLICES = st.lists(st.builds(Slice, st.sampled_from("ab"), st.integers(0, 50), st.integers(1, 20)), max_size=20)


@given(SLICES)
def test_batches_have_each_slice_once_and_fit_into_memory(slices: list[Slice]) -> None:
    limit = 40
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_slices, "BATCH_BYTES", limit)
        batches = list(cut_batches(slices))
    assert [piece for batch in batches for piece in batch] == sorted(set(slices))
    assert all(sum(piece.length for piece in batch) <= limit or len(batch) == 1 for batch in batches)


@given(SLICES)
def test_only_slices_without_a_gap_are_joined(slices: list[Slice]) -> None:
    ordered = sorted(set(slices))
    groups = join_neighbours(ordered)
    assert [piece for group in groups for piece in group] == ordered
    for group in groups:
        for one, other in itertools.pairwise(group):
            assert one.file == other.file and one.end == other.offset
