"""Which builder builds the image, with which arguments, and the files of a release."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.image import (
    EXAMPLES_FILE,
    EXAMPLES_NAME,
    PROJECT,
    NoBuilder,
    build_command,
    describe_commit,
    find_builder,
    save_command,
)
from tools.release import (
    BASE,
    NotPinned,
    NotReproducible,
    build_files,
    check_bases,
    compare_builds,
    find_notes,
    keep_crd,
    repack,
    write_checksums,
)

PUBLIC = "digits-public-image.yaml"  # the example without an image of ours


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def make_program(path: Path, name: str) -> None:
    (path / name).write_text("#!/bin/sh\n")
    (path / name).chmod(0o755)


def make_run(codes: dict[str, int], stdout: str = "") -> object:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, codes.get(command[0], 0), stdout, "")

    return run


@pytest.mark.parametrize(
    ("installed", "broken", "found"),
    [
        (["docker", "podman", "buildah"], [], "docker"),
        (["docker", "buildah"], ["docker"], "buildah"),  # a client without its daemon
        (["podman"], [], "podman"),
    ],
)
def test_the_first_working_builder_is_used(path: Path, installed: list[str], broken: list[str], found: str) -> None:
    for name in installed:
        make_program(path, name)
    assert find_builder(run=make_run(dict.fromkeys(broken, 1))) == found  # type: ignore[arg-type]


def test_without_a_builder_the_error_names_what_is_missing(path: Path) -> None:
    make_program(path, "docker")
    with pytest.raises(NoBuilder, match=r"`docker info` fails, podman is not installed, .*Install buildah or podman"):
        find_builder(run=make_run({"docker": 1}))  # type: ignore[arg-type]
    with pytest.raises(NoBuilder, match="podman is not installed"):
        find_builder("podman")


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
def test_timestamps_are_those_of_the_commit(builder: str) -> None:
    command = build_command(builder, tag="a:1", epoch="17", revision="abc", more=["--build-arg", "BASE_IMAGE=b"])
    assert command[:4] == [builder, "build", "--tag", "a:1"]
    assert "SOURCE_DATE_EPOCH=17" in command
    assert "REVISION=abc" in command
    assert ("--timestamp" in command) == (builder != "docker")
    assert command[-3:] == ["--build-arg", "BASE_IMAGE=b", "."]


def test_every_example_names_the_image_that_is_built_for_them() -> None:
    manifests = [file for file in (PROJECT / "manifests" / "examples").rglob("*.yaml") if file.name != PUBLIC]
    assert len(manifests) > 10
    assert [file.name for file in manifests if f"image: {EXAMPLES_NAME}\n" not in file.read_text()] == []
    assert (PROJECT / EXAMPLES_FILE).is_file()


def test_an_image_is_saved_by_its_builder() -> None:
    assert save_command("podman", tag="a:1", archive=Path("x.tar"))[:2] == ["podman", "save"]
    assert save_command("buildah", tag="a:1", archive=Path("x.tar"))[-1] == "oci-archive:x.tar:a:1"


def test_outside_a_checkout_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert describe_commit(make_run({})) == ("0", "unknown")  # type: ignore[arg-type]
    assert describe_commit(make_run({}, "17 abc\n")) == ("17", "abc")  # type: ignore[arg-type]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "5")
    assert describe_commit(make_run({}, "17 abc\n")) == ("5", "abc")  # type: ignore[arg-type]


def test_sha256sum_accepts_the_checksums(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / ".gitignore").write_text("*")
    write_checksums(tmp_path)
    write_checksums(tmp_path)  # the file does not list itself
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a.txt: OK\nb.txt: OK\n")


def test_the_crd_of_a_release_is_kept(tmp_path: Path) -> None:
    crd = tmp_path / "crd.yaml"
    crd.write_text("kind: A\n")
    keep_crd(crd, tmp_path / "released" / "0.2.0")
    assert (tmp_path / "released" / "0.2.0" / "crd.yaml").read_text() == "kind: A\n"


def pack(folder: Path, archive: Path, *, mtime: int, names: Sequence[str]) -> bytes:
    with tarfile.open(archive, "w:gz") as tar:
        for name in names:
            entry = tar.gettarinfo(folder / name, arcname=name)
            entry.mtime, entry.uid = mtime, mtime
            tar.addfile(entry, io.BytesIO((folder / name).read_bytes()))
    return archive.read_bytes()


def test_an_archive_does_not_know_when_and_by_whom_it_was_packed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    first, second = tmp_path / "first.tgz", tmp_path / "second.tgz"
    assert pack(tmp_path, first, mtime=1, names="ab") != pack(tmp_path, second, mtime=2, names="ba")
    for archive in (first, second):
        repack(archive, 17)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        assert [(entry.name, entry.mtime, entry.uid) for entry in tar] == [("a", 17, 0), ("b", 17, 0)]


CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-01-01\n\n- second\n\n## [0.1.0]\n\n- first\n"


@pytest.mark.parametrize(("version", "notes"), [("0.3.0", "- new\n"), ("0.2.0", "- second\n"), ("0.1.0", "- first\n")])
def test_the_notes_are_the_versions_part_of_the_changelog(version: str, notes: str) -> None:
    assert find_notes(CHANGELOG, version) == notes


def test_a_build_with_other_bytes_is_named() -> None:
    compare_builds(["1  a", "2  b"], ["1  a", "2  b"])
    with pytest.raises(NotReproducible, match=r"other bytes: b$"):
        compare_builds(["1  a", "2  b"], ["1  a", "3  b"])


@pytest.mark.slow
def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    sums = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        build_files(folder, epoch=1_700_000_000)
        sums.append(write_checksums(folder))
    compare_builds(*sums)
    assert len(sums[0]) == 7, "wheel, sdist, chart, SBOM, install.yaml, CRD, notes"


PINNED_BASE = f"python:3.11-slim@sha256:{'0' * 64}"
TAGGED = "ARG BUILD_IMAGE=python:3.11-slim\nARG BASE_IMAGE=${BUILD_IMAGE}\nARG VERSION=1\n"


@pytest.mark.parametrize(
    ("dockerfile", "more", "floating"),
    [
        (TAGGED, [], "BUILD_IMAGE"),
        (TAGGED, ["--build-arg", f"BUILD_IMAGE={PINNED_BASE}"], ""),
        (TAGGED, [f"--build-arg=BUILD_IMAGE={PINNED_BASE}"], ""),
        (TAGGED, ["--build-arg", f"BUILD_IMAGE={PINNED_BASE}x"], "BUILD_IMAGE"),
        (TAGGED, ["--build-arg", f"BUILD_IMAGE={PINNED_BASE}", "--build-arg", "BASE_IMAGE=slim:1"], "BASE_IMAGE"),
        (TAGGED, ["--build-arg", f"BASE_IMAGE={PINNED_BASE}"], "BUILD_IMAGE"),
        (TAGGED, ["--build-arg", "BUILD_IMAGE="], "BUILD_IMAGE"),
        (TAGGED.replace("python:3.11-slim", PINNED_BASE), [], ""),
    ],
)
def test_a_release_names_each_base_by_its_digest(dockerfile: str, more: list[str], floating: str) -> None:
    if not floating:
        check_bases(dockerfile, more)
        return
    with pytest.raises(NotPinned, match=f"^{floating} is .*@sha256:DIGEST"):
        check_bases(dockerfile, more)


def test_the_dockerfile_has_no_base_that_the_check_overlooks() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert set(bases) == {f"${{{name}}}" for name in dict(BASE.findall(dockerfile))}
