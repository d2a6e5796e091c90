"""Folders that no other user can enter, whoever created them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from railhead.local import LocalError
from railhead.local.addresses import hold
from railhead.local.private import make_private
from tests.strangers import NOBODY, is_root

AS_ROOT = pytest.mark.skipif(not is_root(), reason="only root can create another user's folder")


@pytest.mark.parametrize("mode", [None, 0o755, 0o770, 0o777, 0o700])
def test_a_folder_is_taken_from_all_others(tmp_path: Path, mode: int | None) -> None:
    folder = tmp_path / "below" / "session"
    if mode is not None:
        folder.mkdir(parents=True)
        folder.chmod(mode)
        (folder / "kept").write_text("volumes")
    make_private(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "kept").exists() is (mode is not None)


@AS_ROOT
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """Its owner could exchange the programs and keys in it."""
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    with pytest.raises(LocalError, match=r"belongs to another user \(uid 65534\); choose another folder with --dir"):
        make_private(tmp_path / "theirs")


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_a_file_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "target").mkdir(mode=0o755)
    if kind == "link":
        (tmp_path / "session").symlink_to(tmp_path / "target")
    else:
        (tmp_path / "session").write_text("")
    with pytest.raises(LocalError, match="session cannot be used"):
        make_private(tmp_path / "session")
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o755


@AS_ROOT
def test_locks_are_not_made_in_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in it could lead to a file of this user, which would be emptied."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"railhead-ports-{os.getuid()}"
    folder.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "30000").symlink_to(precious)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(LocalError, match="set TMPDIR to a folder of your own"):
        hold("ports", "30000")
    assert precious.read_text() == "mine"
