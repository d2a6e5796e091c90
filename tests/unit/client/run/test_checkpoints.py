"""The checkpoints of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railhead.client.exit_codes import ClientError
from railhead.client.run.checkpoints import (
    Verification,
    choose_checkpoint,
    judge_files,
    list_checkpoints,
    read_snapshot,
)
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.run_files import RunFile
from railhead.contract.snapshot import COPY, SNAPSHOT
from railhead.history import History


def make_snapshot(*names: str) -> bytes:
    entries = [{"checkpoint_dir_name": name, "metrics": {"loss": index}} for index, name in enumerate(names)]
    values: dict[str, Any] = {"checkpoint_results": entries, "latest_checkpoint_result": entries[-1]}
    return json.dumps(values).encode()


FILES = [RunFile("c0/a", 3, 0.0), RunFile("c0/b", 4, 0.0), RunFile("c01/a", 9, 0.0), RunFile("c2/a", 1, 0.0)]
JOURNAL = History(
    (
        {
            "time": "t0",
            "attempt": 1,
            "event": "checkpoint",
            "index": 5,
            "checkpoint": "s3://b/r/c0?endpoint_override=h/x",
        },
    )
)
METRICS = History(
    tuple({"time": "t", "attempt": 1, "step": step, "metrics": {"loss": loss}} for step, loss in [(9, 0), (7, 5)])
)


def test_each_checkpoint_has_what_snapshot_history_and_folder_know() -> None:
    snapshot = read_snapshot({SNAPSHOT: make_snapshot("c0", "c1", "c2")}, "here")
    rows = list_checkpoints(snapshot, FILES, metrics=METRICS, journal=JOURNAL, best="s3://b/r/c0?scheme=http")
    assert [(row.name, row.index, row.time, row.step, row.bytes, row.files) for row in rows] == [
        ("c0", 5, "t0", 9, 7, 2),
        ("c1", None, "", None, 0, 0),
        ("c2", None, "", None, 1, 1),
    ]
    assert [row.name for row in rows if row.is_best] == ["c0"]
    assert [row.name for row in rows if row.is_newest] == ["c2"]
    assert choose_checkpoint(rows, "best").name == "c0"
    assert choose_checkpoint(rows, "newest").name == "c2"
    with pytest.raises(ClientError, match="the files of checkpoint c1 are gone"):
        choose_checkpoint(rows, "c1")
    with pytest.raises(ClientError, match="there is no checkpoint c9; the run has: c0, c1, c2"):
        choose_checkpoint(rows, "c9")


def test_without_a_score_there_is_no_best_one() -> None:
    rows = list_checkpoints(
        read_snapshot({SNAPSHOT: make_snapshot("c0")}, "here"), FILES, metrics=History(), journal=History(), best=""
    )
    with pytest.raises(ClientError, match=r"needs spec\.run\.checkpoint\.scoreAttribute"):
        choose_checkpoint(rows, "best")


def test_a_checkpoint_that_was_committed_without_files_is_not_lost() -> None:
    snapshot = read_snapshot({SNAPSHOT: make_snapshot("c1", "c7")}, "here")
    rows = list_checkpoints(snapshot, FILES, metrics=History(), journal=History(), best="", empty={"c1", "c0"})
    assert [(row.name, row.is_empty) for row in rows] == [("c1", True), ("c7", False)]
    with pytest.raises(ClientError, match="checkpoint c1 had no files when it was committed"):
        choose_checkpoint(rows, "c1")


def test_a_name_that_the_uri_encodes_is_found() -> None:
    name, uri = "epoch=0 val loss=50%", "s3://b/r/epoch=0%20val%20loss=50%25?scheme=http"
    journal = History(({"event": "checkpoint", "index": 4, "checkpoint": uri, "time": "t0", "attempt": 1},))
    rows = list_checkpoints(
        read_snapshot({SNAPSHOT: make_snapshot(name)}, "here"), [], metrics=History(), journal=journal, best=uri
    )
    assert [(row.name, row.index, row.is_best) for row in rows] == [(name, 4, True)]


def test_a_damaged_snapshot_is_replaced_by_its_copy_or_named() -> None:
    good = make_snapshot("c0")
    assert read_snapshot({SNAPSHOT: good[:20], COPY: good}, "here").names == ["c0"]
    assert read_snapshot({}, "here").names == []
    with pytest.raises(ClientError, match=f"{SNAPSHOT} in here cannot be read"):
        read_snapshot({SNAPSHOT: b"{", COPY: b""}, "here")


def test_a_name_that_leads_elsewhere_is_no_checkpoint() -> None:
    names = ("../../etc", "c0", "/etc", "a\x1b[2J", "..")
    assert read_snapshot({SNAPSHOT: make_snapshot(*names)}, "here").names == ["c0"]


def test_damage_is_in_a_file_or_between_two() -> None:
    files = [RunFile(f"c0/{name}", size, 0.0) for name, size in [("deep/.metadata", 9), ("deep/a", 5), ("b.pt", 3)]]
    good = [FileCheck("", {"a": 5}), FileCheck("", None), FileCheck("", {})]
    assert judge_files(dict(zip(files, good, strict=True)), "c0") == Verification((), 2)
    bad = [FileCheck("", {"a": 6, "b": 1}), FileCheck("", None), FileCheck("it is not complete", None)]
    assert judge_files(dict(zip(files, bad, strict=True)), "c0") == Verification(
        (
            "a has 5 bytes, and deep/.metadata refers to 6 bytes of it.",
            "b is missing, and deep/.metadata refers to it.",
            "b.pt: it is not complete.",
        ),
        1,
    )
    assert judge_files({}, "c0") == Verification((), 0)
