"""One upload: what it copies, and what it removes when the attempt has succeeded or the archive is too large."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.run_folder import LOGS
from railhead.driver.archive import archive_upload as upload_module
from railhead.driver.archive.archive_upload import (
    NOT_BEGUN,
    Folder,
    Upload,
    copy,
    open_folder,
    remove_attempt,
    run_upload,
)
from railhead.driver.storage.claims import FENCE, OUTCOME, Claim
from railhead.driver.storage.path_folder import PathFolder, Stored
from railhead.driver.storage.run_folder_files import RunFolder, open_own_folder

UID = "0a1b2c3d-1111-2222-3333-444444444444"
SEGMENT = "0/r0-w0-000000.log.gz"
ATTEMPT = f"{LOGS}/0a1b2c3d-2"


@pytest.fixture(params=["path", "objects"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """The second is pyarrow's, with the file system of a path."""
    (tmp_path / "runs" / "run").mkdir(parents=True)
    if request.param == "path":
        return open_folder(str(tmp_path / "runs"), "run")
    return open_own_folder(f"file://{tmp_path}/runs", "run")


@pytest.fixture
def upload(tmp_path: Path) -> Upload:
    spool = tmp_path / "spool"
    (spool / "0").mkdir(parents=True)
    (spool / SEGMENT).write_bytes(b"complete half")
    return Upload(
        spool=str(spool),
        storage_path=str(tmp_path / "runs"),
        run_name="run",
        uid=UID,
        attempt=2,
        only_failed=True,
        write={SEGMENT: len(b"complete")},
    )


def leave_success(folder: Folder, *, uid: str = UID, attempt: int = 2) -> None:
    outcome = Outcome(outcome=SUCCEEDED, reason="TrainingSucceeded", message="").to_json()
    folder.write(OUTCOME, json.dumps({"uid": uid, "attempt": attempt, "outcome": outcome}).encode())


def names(folder: Folder) -> set[str]:
    return {file.name for file in folder.list_files(LOGS)}


def test_complete_members_are_copied_and_dropped_ones_deleted(folder: Folder, upload: Upload) -> None:
    folder.write(f"{ATTEMPT}/0/old", b"")
    copy(replace(upload, delete=["0/old", "0/never there"]), folder)
    copy(replace(upload, delete=["0/old"]), folder)
    assert folder.read(f"{ATTEMPT}/{SEGMENT}") == b"complete"
    assert names(folder) == {f"0a1b2c3d-2/{SEGMENT}"}


def test_a_segment_that_the_pod_has_dropped_meanwhile_holds_up_no_other(folder: Folder, upload: Upload) -> None:
    """A rank that prints a lot drops segments faster than an upload begins."""
    copy(replace(upload, write={"0/dropped": 9, **upload.write}), folder)
    assert names(folder) == {f"0a1b2c3d-2/{SEGMENT}"}


@pytest.mark.parametrize("by", ["the head", "a worker that finds the success"])
def test_a_success_removes_the_attempts_files_only(folder: Folder, upload: Upload, by: str) -> None:
    folder.write(f"{LOGS}/0a1b2c3d-1/0/failed", b"")
    copy(upload, folder)
    if by == "the head":
        remove_attempt(upload, folder)
        remove_attempt(upload, folder)
    else:
        leave_success(folder)
        copy(replace(upload, write={}, delete=["0/x"]), folder)
        copy(upload, folder)
    assert names(folder) == {"0a1b2c3d-1/0/failed"}


def test_a_success_keeps_them_with_all(folder: Folder, upload: Upload) -> None:
    leave_success(folder)
    copy(replace(upload, only_failed=False), folder)
    assert names(folder) == {f"0a1b2c3d-2/{SEGMENT}"}


@pytest.mark.parametrize("other", [{"uid": "another"}, {"attempt": 3}])
def test_another_ones_success_removes_nothing(folder: Folder, upload: Upload, other: dict[str, str | int]) -> None:
    leave_success(folder, **other)  # type: ignore[arg-type]
    copy(upload, folder)
    assert names(folder) == {f"0a1b2c3d-2/{SEGMENT}"}


def test_a_worker_that_writes_while_the_head_removes_leaves_nothing(folder: Folder, upload: Upload) -> None:
    """The success is left after this upload has looked for it, and before it has written."""

    class Late:
        def __getattr__(self, name: str) -> Callable[..., object]:
            method: Callable[..., object] = getattr(folder, name)
            return method

        def write(self, name: str, data: bytes) -> None:
            leave_success(folder)
            remove_attempt(upload, folder)
            folder.write(name, data)

    copy(upload, Late())  # type: ignore[arg-type]
    assert names(folder) == set()


@pytest.mark.parametrize(
    ("claim", "left"),
    [
        ("", {f"0a1b2c3d-2/{SEGMENT}"}),
        (str(Claim(1, UID, 2, "pod")), {f"0a1b2c3d-2/{SEGMENT}"}),
        (str(Claim(1, UID, 3, "pod")), {f"0a1b2c3d-2/{SEGMENT}", "0a1b2c3d-1/0/old"}),
        (str(Claim(2, "another", 1, "pod")), {f"0a1b2c3d-2/{SEGMENT}", "0a1b2c3d-1/0/old"}),
    ],
)
def test_only_the_attempt_that_has_the_run_removes_a_surplus(
    folder: Folder, upload: Upload, claim: str, left: set[str]
) -> None:
    folder.write(f"{LOGS}/0a1b2c3d-1/0/old", b"12345678")
    if claim:
        folder.write(FENCE, claim.encode())
    copy(upload, folder)
    assert len(names(folder)) == 2
    copy(replace(upload, write={}, limit=10), folder)
    assert names(folder) == left


def test_a_listing_has_sizes_and_times(folder: Folder) -> None:
    folder.write(f"{LOGS}/a/b", b"12")
    [found] = folder.list_files(LOGS)
    assert found == Stored("a/b", 2, found.time) and found.time > 1.7e9


@pytest.mark.parametrize("uri", ["s3://b/x?region=r&scheme=http", "s3://b/x?region=r"])
def test_s3_gets_a_small_object_with_one_request(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [options] = open_s3(uri).__reduce__()[1]
    assert options["allow_delayed_open"] is True and options["region"] == "r"
    monkeypatch.setattr(upload_module, "ask_for_single_requests", lambda uri: f"{uri}&unknown=true")
    [options] = open_s3(uri).__reduce__()[1]
    assert options["allow_delayed_open"] is False, "an older pyarrow"


def open_s3(uri: str) -> Any:
    folder = open_folder(uri, "run")
    assert isinstance(folder, RunFolder)
    return folder.filesystem


def test_the_process_reads_its_order_and_says_what_is_wrong(tmp_path: Path, upload: Upload) -> None:
    order = tmp_path / "upload.json"
    order.write_text(json.dumps(asdict(upload)))
    with pytest.raises(SystemExit, match=NOT_BEGUN):
        run_upload(str(order))
    os.makedirs(tmp_path / "runs" / "run")
    with pytest.raises(SystemExit) as ended:
        run_upload(str(order))
    assert ended.value.code == 0
    assert PathFolder(str(tmp_path / "runs" / "run")).read(f"{ATTEMPT}/{SEGMENT}") == b"complete"


def test_an_upload_to_a_path_imports_little(tmp_path: Path) -> None:
    """Each upload is a process that compiles what it imports: of a short job, this was a tenth of its time."""
    program = "import sys, railhead.driver.archive.archive_upload; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = (
        "railhead.driver.ray",
        "railhead.driver.node",
        "railhead.driver.container.pod_input",
        "importlib.metadata",
        "pyarrow",
        "ray",
    )
    assert [name for name in modules if name.startswith(tuple(f"{each}." for each in heavy)) or name in heavy] == []
