"""The list of a checkpoint's files is what Arrow copies, whatever lies in the folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pyarrow.fs
import pytest

from railhead.driver.rank.checkpoint_files import CheckpointFiles, list_files


def test_lists_what_arrow_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, blobs = tmp_path / "c", tmp_path / "blobs"
    (folder / "deep" / "empty").mkdir(parents=True)
    blobs.mkdir()
    (folder / "weights").write_bytes(b"w" * 10)
    (folder / "deep" / "state").write_bytes(b"s")
    (blobs / "0").write_bytes(b"blob")
    (folder / "model.safetensors").symlink_to("../blobs/0")  # as in the cache of Hugging Face
    (folder / "linked").symlink_to(blobs)
    (folder / "dangling").symlink_to("../blobs/gone")
    (folder / "loop").symlink_to("loop")
    monkeypatch.chdir(folder)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        files, others = list_files(str(folder))
    pyarrow.fs.copy_files(str(folder), str(tmp_path / "copy"))
    copied = {
        str(Path(parent, name).relative_to(tmp_path / "copy")): Path(parent, name).stat().st_size
        for parent, _, names in os.walk(tmp_path / "copy")
        for name in names
    }
    assert {name: file.size for name, file in files.items()} == copied
    assert sorted(others) == ["dangling", "loop", "socket"]


def test_a_link_to_a_parent_ends_the_list(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "b" / "self").symlink_to(".")
    (tmp_path / "a" / "file").write_text("f")
    assert list_files(str(tmp_path))[0].keys() == {"a/file"}


def test_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights").symlink_to("gone")
    CheckpointFiles(str(tmp_path), may_grow=True).note()
    assert f"the checkpoint in {tmp_path} is uploaded without weights: no files, or links to" in capsys.readouterr().out


def test_notes_the_files_once_and_names_a_few(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}").write_text("x")
    files = CheckpointFiles(str(tmp_path), may_grow=True)
    assert files.number == 0 and files.find_damage(dict) == ""
    files.note()
    (tmp_path / "late").write_text("x")
    files.note()
    assert (files.number, files.size) == (8, 8)
    for number in range(8):
        (tmp_path / f"{number}").unlink()
    damage = files.find_damage(lambda: {"0": 1, "1": 0})
    assert "7 of its 8 files changed" in damage and damage.count("(not uploaded)") == 4 and " and 2 more; " in damage


def test_a_folder_that_is_no_folder_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "gone"):
        files = CheckpointFiles(str(path), may_grow=True)
        files.note()
        assert files.number == 0
