"""The URI of a checkpoint with any name, as pyarrow opens it, and as the next attempt and the client read it back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import FileSystem

from railhead.contract.checkpoint_uri import build_checkpoint_uri, read_checkpoint_name, read_path, split_query
from railhead.driver.mailbox.progress import parse_known

PRINTABLE = [chr(code) for code in range(0x3000) if chr(code).isprintable() and chr(code) != "/"]
S3 = "s3://bucket/runs/r?region=us-east-1&endpoint_override=localhost:1"
RUNS = {"/runs/r": "/runs/r", S3: "bucket/runs/r"}


def check(run: str, name: str) -> None:
    uri = build_checkpoint_uri(run, name)
    assert uri.isprintable()
    assert FileSystem.from_uri(uri)[1] == f"{RUNS[run]}/{name}"
    parent = split_query(run)[0]
    assert read_checkpoint_name(uri, parent=parent) == name and read_path(uri) == f"{parent}/{name}"
    known = [{"name": name, "run": "r", "index": 3, "time": "", "attempt": 1}]
    assert parse_known(json.dumps(known), run_uri=run)[name].uri == uri


@pytest.mark.parametrize("run", RUNS)
def test_every_printable_character_may_be_in_a_name(run: str) -> None:
    check(run, "a" + "".join(PRINTABLE) + "b")
    for character in PRINTABLE[:300]:
        check(run, f"deep/a{character}b")


@given(st.sampled_from(sorted(RUNS)), st.text(st.sampled_from(PRINTABLE[:200]), min_size=1, max_size=30))
def test_any_name_is_read_back(run: str, name: str) -> None:
    if name not in (".", ".."):
        check(run, name)


def test_usual_names_stay_readable() -> None:
    names = ("checkpoint_2026-11-22_23-44-51.000123", "epoch=0-step=10.ckpt", "a/b+c")
    assert [build_checkpoint_uri("s3://b/r/?x=1", name) for name in names] == [f"s3://b/r/{n}?x=1" for n in names]
    assert build_checkpoint_uri("gs://b/r", "epoch=0 val loss=50%") == "gs://b/r/epoch=0%20val%20loss=50%25"
    assert build_checkpoint_uri("/runs/r", "epoch=0 val loss=50%") == "/runs/r/epoch=0 val loss=50%"


@pytest.mark.parametrize("path", ["/runs/what?/c", "/runs/a://b?c"])
def test_a_path_has_no_query(path: str) -> None:
    assert split_query(path) == (path, "")
