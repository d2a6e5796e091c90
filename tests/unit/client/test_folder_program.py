"""The program that reads a folder: nothing outside of it, no link, and exactly the bytes that are wanted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railhead.client.folder_program import list_files, read_file


@pytest.fixture
def root(tmp_path: Path) -> int:
    run = tmp_path / "run"
    (run / "checkpoint_1" / "parts").mkdir(parents=True)
    (run / "checkpoint_1" / "parts" / "a").write_bytes(b"abc")
    (run / "state.json").write_bytes(b"{}")
    (tmp_path / "secret").write_bytes(b"secret")
    (run / "checkpoint_1" / "file-link").symlink_to(tmp_path / "secret")
    (run / "checkpoint_1" / "folder-link").symlink_to(tmp_path)
    (run / "link").symlink_to(tmp_path)
    os.mkfifo(run / "pipe")
    return os.open(run, os.O_RDONLY)


def test_regular_files_are_listed_and_links_and_pipes_are_not(root: int) -> None:
    found = list_files(root, ["checkpoint_1", "state.json", "pipe", "link", "link/secret", "gone", "gone/too"])
    assert [(name, size) for name, size, _ in found] == [("checkpoint_1/parts/a", 3), ("state.json", 2)]


@pytest.mark.parametrize("name", ["../secret", "checkpoint_1/../../secret", "/etc/passwd"])
def test_nothing_outside_is_listed_or_read(root: int, name: str) -> None:
    for attempt in (lambda: list(list_files(root, [name])), lambda: list(read_file(root, name, 1))):
        with pytest.raises(OSError, match="is not below the folder"):
            attempt()


@pytest.mark.parametrize("name", ["checkpoint_1/file-link", "link/secret", "checkpoint_1/folder-link/secret"])
def test_a_link_is_not_followed(root: int, name: str) -> None:
    with pytest.raises(OSError):
        list(read_file(root, name, 1))


def test_a_file_that_grows_is_read_up_to_the_size_and_a_shorter_one_is_an_error(root: int) -> None:
    assert b"".join(read_file(root, "checkpoint_1/parts/a", 2)) == b"ab"
    with pytest.raises(OSError, match="has become shorter"):
        list(read_file(root, "checkpoint_1/parts/a", 4))
