"""`make checksums` takes every line from the publishers, or leaves the file as it is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tools import checksums

from railhead.local.control_plane.binaries import CHECKSUMS, NotDownloaded, Publishers, Release, read_checksums

HEAD = "# written by make checksums\n"


def answer(release: Release) -> str:
    return hashlib.sha256(release.url.encode()).hexdigest()


def test_writes_the_checksum_of_each_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / CHECKSUMS
    file.write_text(f"{HEAD}old  url\n")
    monkeypatch.setattr(checksums, "fetch_checksum", answer)
    checksums.write(file, Publishers())
    releases = [release for arch in ("amd64", "arm64") for release in Publishers().list_releases(arch)]
    assert len(releases) == 10
    assert file.read_text() == HEAD + "".join(f"{answer(release)}  {release.url}\n" for release in releases)


def test_a_publisher_that_does_not_answer_leaves_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(release: Release) -> str:
        raise NotDownloaded("no network")

    file = tmp_path / CHECKSUMS
    file.write_text(HEAD)
    monkeypatch.setattr(checksums, "fetch_checksum", refuse)
    with pytest.raises(NotDownloaded):
        checksums.write(file, Publishers())
    assert file.read_text() == HEAD


def test_the_file_in_the_tree_lists_all_releases_of_a_version_or_none() -> None:
    pinned = set(read_checksums())
    wanted = {release.url for arch in ("amd64", "arm64") for release in Publishers().list_releases(arch)}
    assert pinned in (set(), wanted)
