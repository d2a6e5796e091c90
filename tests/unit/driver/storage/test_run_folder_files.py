"""Modes, planted links and the fence on a path; the same calls on another file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from railhead.driver.messages.attempt_errors import Fenced
from railhead.driver.storage.run_folder_files import PrivateFolder, RunFolder


def permit() -> None:
    """The fence of a head that has the run."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "r").mkdir()
    return tmp_path / "r"


@pytest.fixture
def folder(run: Path) -> PrivateFolder:
    return PrivateFolder(RunFolder(LocalFileSystem(), str(run)), "metrics", permit)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that only this user can write; it must stay as it is."""
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_user_and_the_group_may_read(folder: PrivateFolder, run: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder.write("1-a-1.jsonl", b"one")
        folder.write("1-a-1.jsonl", b"two")
    finally:
        os.umask(before)
    file = run / ".railhead/metrics/1-a-1.jsonl"
    assert (mode_of(file), mode_of(file.parent)) == (0o640, 0o750)
    assert folder.read("1-a-1.jsonl") == b"two" and folder.list_sizes() == {"1-a-1.jsonl": 3}


@pytest.mark.parametrize("name", [".railhead", ".railhead/metrics"])
def test_a_link_in_the_place_of_a_folder_is_an_error(
    folder: PrivateFolder, run: Path, tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "metrics").mkdir(parents=True)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(elsewhere)
    for call in (lambda: folder.write("f", b"x"), lambda: folder.read("f"), folder.list_sizes):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            call()
    assert [each.name for each in elsewhere.rglob("*")] == ["metrics"]


@pytest.mark.parametrize("name", ["1-a-1.jsonl", "1-a-1.jsonl.new"])
@pytest.mark.parametrize("is_hard", [False, True])
def test_a_link_in_the_place_of_a_file_is_replaced(
    folder: PrivateFolder, run: Path, victim: Path, name: str, is_hard: bool
) -> None:
    planted = run / ".railhead/metrics" / name
    planted.parent.mkdir(parents=True)
    planted.hardlink_to(victim) if is_hard else planted.symlink_to(victim)
    folder.write("1-a-1.jsonl", b"lines")
    assert not (planted.parent / "1-a-1.jsonl").is_symlink() and folder.read("1-a-1.jsonl") == b"lines"


def test_a_link_is_neither_read_nor_listed(folder: PrivateFolder, run: Path, victim: Path) -> None:
    folder.write("1-a-1.jsonl", b"lines")
    (run / ".railhead/metrics/1-b-1.jsonl").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        folder.read("1-b-1.jsonl")
    assert folder.list_sizes() == {"1-a-1.jsonl": 5}


def test_the_runs_own_folder_may_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    PrivateFolder(RunFolder(LocalFileSystem(), str(tmp_path / "link")), "journal", permit).write("f", b"x")
    assert (run / ".railhead/journal/f").read_bytes() == b"x"


def test_another_file_system_has_the_same_calls(run: Path) -> None:
    """An object store has no folders, modes or links."""
    folder = PrivateFolder(RunFolder(SubTreeFileSystem(str(run), LocalFileSystem()), "/"), "metrics", permit)
    assert folder.list_sizes() == {} and folder.read("f") is None
    folder.write("f", b"abc")
    assert folder.list_sizes() == {"f": 3} and folder.read("f") == b"abc"


def test_nothing_is_written_that_the_fence_forbids(run: Path) -> None:
    def refuse() -> None:
        raise Fenced("attempt 2 has taken over the run")

    for filesystem in (LocalFileSystem(), SubTreeFileSystem(str(run), LocalFileSystem())):
        path = str(run) if filesystem.type_name == "local" else "/"
        with pytest.raises(Fenced):
            PrivateFolder(RunFolder(filesystem, path), "metrics", refuse).write("f", b"x")
    assert list(run.iterdir()) == []
