"""The run's folder as a path: modes, and links that an attacker has planted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.driver.storage.path_folder import PathFolder
from tests.full_disk import mount_full_disk

NAME = ".railhead/logs/0a1b2c3d-1/0/r0-w0-000000.log.gz"


@pytest.fixture(params=[0o000, 0o077], ids=["open", "closed"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    old = os.umask(request.param)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
def test_files_are_for_the_owner_and_the_group(tmp_path: Path) -> None:
    PathFolder(str(tmp_path)).write(NAME, b"data")
    path = tmp_path / NAME
    assert path.read_bytes() == b"data" and path.stat().st_mode & 0o777 == 0o640
    for folder in list(path.parents)[:3]:
        assert folder.stat().st_mode & 0o777 == 0o750, folder


def test_a_file_is_replaced_read_listed_and_deleted(tmp_path: Path) -> None:
    folder = PathFolder(str(tmp_path))
    assert folder.read(NAME) is None and folder.list_files(".railhead/logs") == []
    folder.write(NAME, b"first")
    folder.write(NAME, b"second")
    assert folder.read(NAME) == b"second"
    [found] = folder.list_files(".railhead/logs")
    assert (found.name, found.size) == ("0a1b2c3d-1/0/r0-w0-000000.log.gz", 6)
    assert abs(found.time - (tmp_path / NAME).stat().st_mtime) < 1
    folder.delete(NAME)
    with pytest.raises(FileNotFoundError):
        folder.delete(NAME)
    folder.write(NAME, b"again")
    folder.delete_folder(".railhead/logs/0a1b2c3d-1")
    assert list((tmp_path / ".railhead/logs").iterdir()) == []
    with pytest.raises(FileNotFoundError):
        folder.delete_folder(".railhead/logs/0a1b2c3d-1")


def test_the_runs_folder_is_not_made(tmp_path: Path) -> None:
    """The check that all pods share it would otherwise find one."""
    with pytest.raises(FileNotFoundError):
        PathFolder(str(tmp_path / "absent")).write(NAME, b"data")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("level", [".railhead", ".railhead/logs", ".railhead/logs/0a1b2c3d-1", str(Path(NAME).parent)])
def test_a_planted_folder_leads_nowhere(tmp_path: Path, level: str) -> None:
    run, target = tmp_path / "run", tmp_path / "target"
    (run / level).parent.mkdir(parents=True)
    (target / Path(NAME).relative_to(level)).parent.mkdir(parents=True)
    victim = target / Path(NAME).relative_to(level)
    victim.write_text("precious")
    (run / level).symlink_to(target)
    folder = PathFolder(str(run))
    for act in (
        lambda: folder.write(NAME, b"data"),
        lambda: folder.read(NAME),
        lambda: folder.delete(NAME),
        lambda: folder.delete_folder(str(Path(NAME).parent)),
        lambda: folder.list_files(str(Path(NAME).parent)),
    ):
        with pytest.raises(OSError, match=r"Not a directory|symbolic link"):
            act()
    assert victim.read_text() == "precious" and len(list(victim.parent.iterdir())) == 1


def test_a_planted_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    run, victim = tmp_path / "run", tmp_path / "victim"
    victim.write_text("precious")
    path = run / NAME
    path.parent.mkdir(parents=True)
    path.symlink_to(victim)
    path.with_name(f"{path.name}.new").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        PathFolder(str(run)).read(NAME)
    PathFolder(str(run)).write(NAME, b"data")
    assert victim.read_text() == "precious" and not path.is_symlink() and path.read_bytes() == b"data"


def test_it_writes_in_place_where_nothing_can_be_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(38, "Function not implemented")

    folder = PathFolder(str(tmp_path))
    folder.write(NAME, b"a longer text")
    monkeypatch.setattr(os, "replace", refuse)
    folder.write(NAME, b"text")
    assert (tmp_path / NAME).read_bytes() == b"text" and len(list((tmp_path / NAME).parent.iterdir())) == 1
    (tmp_path / "victim").write_text("precious")
    (tmp_path / NAME).with_name("link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        folder.write(str(Path(NAME).with_name("link")), b"data")
    assert (tmp_path / "victim").read_text() == "precious"


def test_an_error_that_passes_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    folder = PathFolder(str(tmp_path))
    folder.write(NAME, b"old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output error"):
        folder.write(NAME, b"new")
    assert (tmp_path / NAME).read_bytes() == b"old" and len(list((tmp_path / NAME).parent.iterdir())) == 1


def test_a_planted_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / NAME).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / NAME)
    folder = PathFolder(str(tmp_path))
    assert not folder.read(NAME) and folder.list_files(".railhead/logs") == []


def test_a_full_disk_leaves_the_older_file(tmp_path: Path) -> None:
    with mount_full_disk(tmp_path / "disk") as disk:
        disk.make_room()
        folder = PathFolder(str(disk.path))
        folder.write(NAME, b"older")
        with pytest.raises(OSError, match="No space left"):
            folder.write(NAME, os.urandom(2**20))
        assert (disk.path / NAME).read_bytes() == b"older" and len(list((disk.path / NAME).parent.iterdir())) == 1
