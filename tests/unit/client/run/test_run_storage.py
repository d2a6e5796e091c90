"""A storage with many runs, on a path and in S3: listed, read at once, and with nothing of it trusted."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run import run_storage
from railhead.client.run.run_files import read_found
from railhead.client.run.run_list import RunRecords, read_record, read_records
from railhead.client.run.run_storage import PathStorage, open_storage
from railhead.contract.run_folder import RECORD
from railhead.contract.run_record import LIMIT_BYTES, RunRecord
from tests.s3 import BUCKET, S3, start_s3
from tests.slow_cases import slow_after

HOSTILE = "run\x1b]0;owned\x07"


def make_record(name: str = "digits") -> RunRecord:
    return RunRecord("ns", name, "u")


def write(runs: Path, name: str, data: bytes | None = None) -> Path:
    file = runs / name / RECORD
    file.parent.mkdir(parents=True)
    file.write_bytes(make_record(name).to_json() if data is None else data)
    return file


def read(place: str | Path) -> RunRecords:
    return asyncio.run(read_records(open_storage(str(place))))


def test_each_folder_with_a_record_is_a_run(tmp_path: Path) -> None:
    write(tmp_path, "digits")
    write(tmp_path, "other run")
    (tmp_path / "not-a-run" / "files").mkdir(parents=True)
    (tmp_path / "a-file").write_text("x")
    found = read(tmp_path)
    assert found.records == {name: make_record(name) for name in ("digits", "other run")}
    assert found.notes == ()


def test_a_storage_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"cannot read .*nowhere: No such file") as caught:
        read(tmp_path / "nowhere")
    assert caught.value.code == ExitCode.NOT_FOUND
    (tmp_path / "file").write_text("x")
    with pytest.raises(ClientError, match="Not a directory"):
        read(tmp_path / "file")


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"{", "it is damaged, or another program's"),
        (b'{"a": 1}', "it is damaged, or another program's"),
        (b"[" * 60_000, "it is damaged, or another program's"),
        (b" " * LIMIT_BYTES + make_record().to_json(), "it is damaged, or another program's"),
        (b'{"version": 2}', "it has version 2, and not 1; upgrade railhead"),
    ],
)
def test_a_record_that_cannot_be_read_hides_no_other_and_is_said(tmp_path: Path, data: bytes, note: str) -> None:
    write(tmp_path, "digits")
    for number in range(5):
        write(tmp_path, f"bad-{number}", data)
    found = read(tmp_path)
    assert found.records.keys() == {"digits"}
    assert found.notes == (f"The record of bad-0, bad-1, bad-2 and 2 more cannot be read: {note}.",)


def test_no_link_and_no_pipe_is_read_and_no_name_that_a_terminal_obeys(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    outside = write(tmp_path / "outside", "digits")
    (runs / "linked").mkdir(parents=True)
    (runs / "linked" / ".railhead").symlink_to(outside.parent)
    (runs / "digits").symlink_to(outside.parents[1])
    (runs / "piped" / ".railhead").mkdir(parents=True)
    os.mkfifo(runs / "piped" / RECORD)
    (runs / "folder" / RECORD).mkdir(parents=True)
    write(runs, HOSTILE)
    found = read(runs)
    assert not found.records
    assert all(note.isprintable() for note in found.notes)
    assert "linked" in " ".join(found.notes)


def test_a_storage_with_too_many_folders_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_storage, "MOST_FOLDERS", 1)
    write(tmp_path, "a")
    assert read(tmp_path).records.keys() == {"a"}
    write(tmp_path, "b")
    with pytest.raises(ClientError, match="has 2 folders, more than 1; name a folder below"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["nope", "..", "../runs/digits", "a\x1b[2J", "", "/etc"])
def test_a_run_without_a_record_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    write(tmp_path / "runs", "digits")
    storage = open_storage(str(tmp_path / "runs"))
    assert asyncio.run(read_record(storage, "digits")) == make_record()
    with pytest.raises(
        ClientError, match=r"has no record of a run .*: there is none; `railhead runs .*` lists"
    ) as caught:
        asyncio.run(read_record(storage, name))
    assert caught.value.code == ExitCode.NOT_FOUND and str(caught.value).isprintable()


def test_a_run_opens_as_a_folder(tmp_path: Path) -> None:
    file = write(tmp_path, "digits")
    files = PathStorage(str(tmp_path)).open_folder("digits")
    assert asyncio.run(read_found(files, [RECORD])) == {RECORD: file.read_bytes()}
    assert asyncio.run(read_found(run_storage.open_copy(files.place), [RECORD])) == {RECORD: file.read_bytes()}


@pytest.fixture(scope="module")
def s3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3")


@pytest.fixture(scope="module")
def s3(s3_folder: Path) -> Iterator[S3]:
    with start_s3(s3_folder) as server:
        yield server


@pytest.fixture
def runs(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Returns the path of a storage of this test in the bucket."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return re.sub(r"\W", "-", request.node.name)


def count_requests(log: str) -> list[str]:
    return re.findall(r'"(GET|HEAD) /', log)


@pytest.mark.parametrize("count", slow_after(1, [8, 20]))
def test_a_bucket_costs_a_listing_and_one_small_object_per_run(s3: S3, runs: str, s3_folder: Path, count: int) -> None:
    names = [f"run-{number}" for number in range(count)]
    for name in names:
        s3.put(f"{runs}/{name}/{RECORD}", make_record(name).to_json())
        for number in range(9):
            s3.put(f"{runs}/{name}/checkpoint_{number}/model.pt", b"weights")
    log = s3_folder / "s3.log"
    before = log.stat().st_size
    found = read(s3.build_uri(runs))
    assert found.records == {name: make_record(name) for name in names}
    requests = count_requests(log.read_text()[before:])
    assert len(requests) <= 2 + 2 * len(names)  # pyarrow asks for the size of a file before it reads it


def test_a_run_in_a_bucket_opens_and_what_is_missing_is_said(s3: S3, runs: str) -> None:
    data = replace(make_record(), run_uri="x").to_json()
    s3.put(f"{runs}/digits/{RECORD}", data)
    s3.put(f"{runs}/damaged/{RECORD}", data[:-3])
    s3.put(f"{runs}/bare/model.pt", b"")
    storage = open_storage(s3.build_uri(runs))
    found = asyncio.run(read_records(storage))
    assert found.records.keys() == {"digits"} and "damaged" in found.notes[0]
    files = storage.open_folder("digits")
    assert files.place.startswith(f"s3://{BUCKET}/{runs}/digits?")
    assert asyncio.run(read_found(files, [RECORD])) == {RECORD: data}
    assert asyncio.run(read_found(run_storage.open_copy(files.place), [RECORD])) == {RECORD: data}
    with pytest.raises(ClientError, match="there is none"):
        asyncio.run(read_record(storage, "bare"))
    assert not read(s3.build_uri(f"{runs}-empty")).records
    with pytest.raises(ClientError, match="cannot read"):
        read(s3.build_uri("runs", bucket="nowhere"))


def test_a_reader_without_rights_is_told_so(s3: S3, runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put(f"{runs}/digits/{RECORD}", make_record().to_json())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ClientError, match="with the credentials of this machine"):
        read(s3.build_uri(runs))
