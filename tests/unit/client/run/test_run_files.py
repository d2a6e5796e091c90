"""Files of a run, from a process and from a store: complete or an error, and nothing that was not asked for."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from railhead.client.exit_codes import ClientError
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.process_files import ProcessFiles, parse_checks, parse_listing
from railhead.client.run.run_files import (
    RunFile,
    RunFiles,
    copy_files,
    is_plain,
    read_files,
    read_folder,
    read_found,
    try_again,
)
from railhead.client.run.store_files import StoreFiles

BIG = bytes(range(256)) * 12_000  # more than one piece


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "ck" / "deep").mkdir(parents=True)
    (folder / "ck" / "big").write_bytes(BIG)
    (folder / "ck" / "deep" / "b").write_bytes(b"b")
    (folder / "ck" / "empty").write_bytes(b"")
    (folder / "other").write_bytes(b"other")
    return folder


@pytest.fixture(params=["process", "store"])
def files(request: pytest.FixtureRequest, run: Path) -> RunFiles:
    if request.param == "store":
        return StoreFiles.open(run.as_uri())
    return ProcessFiles("the run", str(run), (sys.executable,))


async def test_files_are_found_and_read(files: RunFiles) -> None:
    found = await files.find(["ck", "other", "gone"])
    assert [(file.name, file.size) for file in found] == [
        ("ck/big", len(BIG)),
        ("ck/deep/b", 1),
        ("ck/empty", 0),
        ("other", 5),
    ]
    assert await read_folder(files, "ck") == {"big": BIG, "deep/b": b"b", "empty": b""}
    assert await read_files(files, []) == {}


async def test_files_are_checked_where_they_are(files: RunFiles, run: Path) -> None:
    (run / "ck" / "epoch.json").write_bytes(b'{"epoch"')
    (run / "ck" / "model.index.json").write_bytes(b'{"weight_map": {"a": "big"}}')
    found = await files.find(["ck"])
    checks = dict(zip((file.name for file in found), await files.check(found), strict=True))
    assert checks["ck/big"] == checks["ck/empty"] == FileCheck("", None)
    assert checks["ck/model.index.json"] == FileCheck("", {"big": 1})
    assert checks["ck/epoch.json"].problem.startswith("it is damaged")
    (run / "ck" / "epoch.json").unlink()
    assert FileCheck("it is gone", None) in await files.check(found)
    assert await files.check([]) == []


@pytest.mark.parametrize(
    "output", ["x", "[]", "{}", "[7]", '[["a"]]', "[[7, null]]", '[["", {"a": "b"}]]', '[["", [1]]]', "[" * 100_000]
)
def test_a_hostile_list_of_checks_is_refused(output: str) -> None:
    with pytest.raises(ClientError, match="did not return a list of 1 checks"):
        parse_checks(output.encode(), 1, "the pod")


async def test_a_folder_is_copied_into_a_new_one(files: RunFiles, tmp_path: Path) -> None:
    target = tmp_path / "a" / "copy"
    await copy_files(files, await files.find(["ck"]), folder="ck", into=target)
    copied = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert copied == {"big": BIG, "deep/b": b"b", "empty": b""}
    with pytest.raises(ClientError, match="is not empty"):
        await copy_files(files, await files.find(["ck"]), folder="ck", into=target)


async def test_a_file_that_has_become_shorter_is_an_error(files: RunFiles) -> None:
    with pytest.raises(ClientError, match="has become shorter"):
        await read_files(files, [RunFile("other", 6, 0.0)])


@pytest.mark.parametrize("times", [2, 3])
async def test_a_file_that_becomes_shorter_between_list_and_read_is_read_again(
    files: RunFiles, run: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    left, find = ["o" * size for size in range(times)], type(files).find

    async def find_and_write(files: Any, names: Sequence[str]) -> list[RunFile]:
        found = await find(files, names)
        if left:
            (run / "other").write_text(left.pop())
        return found

    monkeypatch.setattr(type(files), "find", find_and_write)
    if times == 3:
        with pytest.raises(ClientError, match="has become shorter"):
            await try_again(lambda: read_found(files, ["other"]))
    else:
        assert await try_again(lambda: read_found(files, ["other"])) == {"other": b""}


async def test_nothing_is_written_without_room(
    files: RunFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100))
    with pytest.raises(ClientError, match="has room for 0 MiB, but the files have 2 MiB"):
        await copy_files(files, await files.find(["ck"]), folder="ck", into=tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


async def test_a_name_that_this_system_cannot_have_is_an_error(
    files: RunFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode: open_(Path(os.devnull) if path.name == "b" else path, "ab"))
    with pytest.raises(ClientError, match="can have no file of the name ck/deep/b"):
        await copy_files(files, await files.find(["ck"]), folder="ck", into=tmp_path / "copy")


async def test_what_does_not_fit_into_memory_is_not_read(files: RunFiles) -> None:
    with pytest.raises(ClientError, match="do not fit"):
        await read_files(files, [RunFile("other", 1 << 40, 0.0)])


async def test_a_process_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"cannot read the run: .*No such file"):
        await ProcessFiles("the run", str(tmp_path / "gone"), (sys.executable,)).find(["a"])
    with pytest.raises(ClientError, match="cannot read the run: no pod � here"):
        await ProcessFiles("the run", "/", ("sh", "-c", "printf 'no pod \\033 here' >&2; exit 1", "sh")).find(["a"])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "did not return a list of files"),
        ("[[1, 2, 3", "did not return a list of files"),
        ('{"a": 1}', "did not return a list of files"),
        (json.dumps([["ck/../../x", 1, 0]]), "whose name is refused"),
        (json.dumps([["/etc/x", 1, 0]]), "whose name is refused"),
        (json.dumps([["ck/a\x1b[2J", 1, 0]]), "whose name is refused"),
        (json.dumps([[7, 1, 0]]), "did not return a list of files"),
        (json.dumps([["elsewhere", 1, 0]]), "which is not in ck"),
        (json.dumps([["cka", 1, 0]]), "which is not in ck"),
        (json.dumps([["ck/a", -1, 0]]), "no size"),
        (json.dumps([["ck/a", 1.5, 0]]), "did not return a list of files"),
        (json.dumps([["ck/a", True, 0]]), "did not return a list of files"),
    ],
)
def test_a_hostile_listing_is_refused(output: str, message: str) -> None:
    with pytest.raises(ClientError, match=message):
        parse_listing(output.encode(), ["ck"], "the pod")


async def test_a_process_that_sends_too_little_or_lists_too_much_is_refused() -> None:
    short = ProcessFiles("the pod", "/", ("sh", "-c", "echo abc", "sh"))
    with pytest.raises(ClientError, match="has sent too few bytes of a"):
        await read_files(short, [RunFile("a", 100, 0.0)])
    with pytest.raises(ClientError, match="the pod prints more than 32 MiB"):
        await ProcessFiles("the pod", "/", ("sh", "-c", "exec yes", "sh")).find(["a"])


def test_names_that_lead_elsewhere_on_some_system_are_not_plain() -> None:
    assert is_plain("checkpoint_2026-11-25_11-40-00.000123/model.pt")
    for name in ("", "a//b", "../a", "a/..", "a/./b", "c:\\x", "c:x", "a/... /b", "a\nb", "\u202ea", "x" * 1025):
        assert not is_plain(name)
