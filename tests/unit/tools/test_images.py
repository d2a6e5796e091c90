"""Images without a builder, the settings that they take from the Dockerfile, and rules for both Dockerfiles."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from pathlib import Path

import pytest
from tools.debian_image import clean_debian, find_obstacle, forget_origin, make_operator_image
from tools.image import EXAMPLES_FILE, PROJECT
from tools.oci import digest_file, pack_layer, read_config, read_instructions, write_archive
from tools.sbom import build_distributions

DOCKERFILES = ("Dockerfile", EXAMPLES_FILE)


def read_blob(tar: tarfile.TarFile, digest: str) -> bytes:
    file = tar.extractfile(f"blobs/{digest.replace(':', '/')}")
    assert file is not None
    data = file.read()
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == digest
    return data


def make_image(folder: Path, *, mtime: int) -> Path:
    root = folder / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("a")
    os.utime(root / "a" / "file", (mtime, mtime))
    layer = pack_layer(root, "./a", folder / "layer", epoch=17)
    target = folder / "image.tar"
    write_archive(target, "railhead/a:1", {"User": "1:1"}, [layer], epoch=17)
    return target


def test_an_archive_has_the_blobs_that_it_names(tmp_path: Path) -> None:
    with tarfile.open(make_image(tmp_path, mtime=1_000)) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        [entry] = json.load(index)["manifests"]
        assert entry["annotations"]["io.containerd.image.name"] == "railhead/a:1"
        manifest = json.loads(read_blob(tar, entry["digest"]))
        config = json.loads(read_blob(tar, manifest["config"]["digest"]))
        [layer] = manifest["layers"]
        assert len(read_blob(tar, layer["digest"])) == layer["size"]
    assert (config["config"], config["created"]) == ({"User": "1:1"}, "1970-01-01T00:00:17Z")
    assert config["rootfs"]["diff_ids"] != [layer["digest"]], "the digest of the unpacked layer"


def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    images = []
    for name, mtime in (("first", 1_000), ("second", 2_000)):
        (tmp_path / name).mkdir()
        images.append(make_image(tmp_path / name, mtime=mtime).read_bytes())
    assert images[0] == images[1]


def test_the_image_starts_as_the_dockerfile_says() -> None:
    values = {"VERSION": "1.2.3", "REVISION": "abc"}
    text = 'ARG BASE=a:1\nFROM ${BASE} AS b\nENV A=1\nUSER 1\nFROM ${BASE}\nLABEL x="a b" \\\n    y="${VERSION}"\n'
    text += 'ENV PATH=/opt/venv/bin:$PATH B=2\n# A comment.\nUSER 2:2\nWORKDIR /tmp\nENTRYPOINT ["e"]\nCMD ["c"]\n'
    path = "PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    started = {"User": "2:2", "WorkingDir": "/tmp", "Entrypoint": ["e"], "Cmd": ["c"]}
    assert read_config(text, values) == {**started, "Labels": {"x": "a b", "y": "1.2.3"}, "Env": [path, "B=2"]}
    config = read_config((PROJECT / "Dockerfile").read_text(), values)
    assert config.keys() == {*started, "Labels", "Env"}
    assert (config["Entrypoint"], config["Cmd"]) == (["railhead"], ["operator"])


def test_debians_part_has_no_trace_of_the_machine_and_keeps_the_licences(tmp_path: Path) -> None:
    files = ("etc/hostname", "etc/passwd", "etc/passwd-", "usr/share/doc/a/copyright", "usr/share/doc/a/changelog.gz")
    for name in (*files, "var/log/apt/history.log", "var/cache/apt/archives/a.deb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "usr/share/doc/b").symlink_to("a")
    (tmp_path / "etc/shadow").write_text("root:*:20417:0:99999:7:::\na:*:20416:0:99999:7:::\n")
    clean_debian(tmp_path)
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == {"etc/passwd", "etc/shadow", "usr/share/doc/a/copyright"}
    assert (tmp_path / "etc/shadow").read_text() == "root:*:20000:0:99999:7:::\na:*:20000:0:99999:7:::\n"


def test_the_package_does_not_know_where_it_was_built(tmp_path: Path) -> None:
    folder = tmp_path / "a-1.dist-info"
    folder.mkdir()
    (folder / "direct_url.json").write_text("file:///tmp/a")
    (folder / "RECORD").write_text("a.py,,\na-1.dist-info/direct_url.json,sha256=1,2\na-1.dist-info/RECORD,,\n")
    forget_origin(tmp_path)
    assert [file.name for file in folder.iterdir()] == ["RECORD"]
    assert (folder / "RECORD").read_text() == "a.py,,\na-1.dist-info/RECORD,,\n"


@pytest.mark.slow
@pytest.mark.skipif(find_obstacle() is not None, reason="no image can be built here")
def test_two_builds_of_the_operators_image_give_the_same_bytes(tmp_path: Path) -> None:
    wheel, _ = build_distributions(tmp_path, epoch=1_700_000_000)
    archives = tmp_path / "first.tar", tmp_path / "second.tar"
    for archive in archives:
        make_operator_image(archive, wheel=wheel, echo=print)
    assert digest_file(archives[0]) == digest_file(archives[1])


@pytest.mark.parametrize("name", DOCKERFILES)
def test_a_base_is_an_argument_and_no_tag_moves(name: str) -> None:
    """So that a release can name a base by digest."""
    instructions = read_instructions((PROJECT / name).read_text())
    arguments = dict(text.partition("=")[::2] for instruction, text in instructions if instruction == "ARG")
    bases = [text.split()[0] for instruction, text in instructions if instruction == "FROM"]
    assert bases and all(re.fullmatch(r"\$\{[A-Z_]+\}", base) and base[2:-1] in arguments for base in bases), bases
    defaults = [arguments[base[2:-1]] for base in bases if not arguments[base[2:-1]].startswith("$")]
    assert all(re.search(r":\d|@sha256:", default) for default in defaults), defaults


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_user_of_the_last_stage_is_a_number_and_not_root(name: str) -> None:
    config = read_config((PROJECT / name).read_text(), {})
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", str(config["User"]))


@pytest.mark.parametrize("name", DOCKERFILES)
def test_no_step_leaves_a_cache_or_fetches_something_unpinned(name: str) -> None:
    instructions = read_instructions((PROJECT / name).read_text())
    installs = [
        command
        for instruction, text in instructions
        if instruction == "RUN"
        for command in text.split("&&")
        if " install " in command
    ]
    assert installs
    assert not [command for command in installs if "--no-cache" not in command]
    # The first install is that of uv itself, into an environment that is in no image.
    assert installs[0].split()[-3:] == ["--require-hashes", "--requirement", "uv.txt"]
    assert not [command for command in installs[1:] if "--constraint constraints.txt" not in command]
    assert not [text for instruction, text in instructions if instruction == "ADD" or "apt-get" in text]
    shells = [text for instruction, text in instructions if instruction in ("ENTRYPOINT", "CMD")]
    assert all(isinstance(json.loads(text), list) for text in shells)
