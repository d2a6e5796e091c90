"""Which builder builds the image, with which arguments, and the files of a release."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.image import NoBuilder, build_command, describe_commit, find_builder, save_command
from tools.release import keep_crd, write_checksums


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
