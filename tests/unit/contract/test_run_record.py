"""The record of a run: bounded, and nothing but a record when it is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from railhead.contract.report import CommittedCheckpoint, Steps
from railhead.contract.run_record import (
    LIMIT_BYTES,
    MOST_ATTEMPTS,
    VERSION,
    OtherVersion,
    RecordedAttempt,
    RecordedEnvironment,
    RecordedSpec,
    RunRecord,
    parse_record,
)
from railhead.contract.spent import Spent

ATTEMPT = RecordedAttempt("u", 1, "p", "2026-11-28T10:00:00Z", "2026-11-28T11:00:00Z", spent=Spent(productive=9))
RECORD = RunRecord(
    namespace="ns",
    name="digits",
    uid="u",
    run_uri="s3://bucket/runs/digits",
    spec=RecordedSpec(
        train_func="m:f",
        entrypoint=("python", "train.py"),
        train_loop_config={"lr": 0.1, "layers": [1, {"a": None}]},
        num_workers=4,
        min_workers=2,
        resources_per_worker={"CPU": 2, "GPU": 1.0},
        datasets={"train": "s3://b/a"},
        score_attribute="loss",
    ),
    environment=RecordedEnvironment("image:1", {"ray": "2.60.0"}, code="abc"),
    attempts=(ATTEMPT, replace(ATTEMPT, number=2)),
    checkpoint=CommittedCheckpoint("s3://bucket/runs/digits/c", 3, "2026-11-28T10:30:00Z", {"loss": "0.1"}, 1),
    metrics={"loss": "0.1"},
    steps=Steps(step=3, total=9),
)


def change(**changes: Any) -> bytes:
    return json.dumps({**json.loads(RECORD.to_json()), **changes}).encode()


def test_a_record_survives_json() -> None:
    assert parse_record(RECORD.to_json()) == RECORD


def test_a_newer_driver_may_add_fields_and_an_older_one_lack_them() -> None:
    assert parse_record(change(added={"a": 1}, attempts=[{**json.loads(change())["attempts"][0], "added": 1}]))
    bare = json.dumps({"version": VERSION, "namespace": "ns", "name": "digits", "uid": "u"}).encode()
    assert parse_record(bare) == RunRecord("ns", "digits", "u")


def test_another_version_is_no_damaged_record() -> None:
    with pytest.raises(OtherVersion, match="version 2"):
        parse_record(change(version=2))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        RECORD.to_json()[:-20],
        change(version="1"),
        change(version=True),
        change(name=None),
        change(name=["digits"]),
        change(attempts={}),
        change(attempts="ab"),
        change(attempts=[1]),
        change(attempts=[{"job": "u"}]),
        change(attempts=[{**json.loads(change())["attempts"][0], "number": "1"}]),
        change(attempts=[{**json.loads(change())["attempts"][0], "number": True}]),
        change(attempts=[{**json.loads(change())["attempts"][0], "spent": {"productive": "9"}}]),
        change(spec=[]),
        change(spec={"entrypoint": "python train.py"}),
        change(spec={"resources_per_worker": {"GPU": "1"}}),
        change(environment={"versions": ["ray"]}),
        change(metrics={"loss": 0.1}),
        change(metrics=[]),
        change(checkpoint={"uri": 1}),
        change(steps=None),
        change(name="n" * LIMIT_BYTES),
    ],
)
def test_anything_else_is_no_record(data: bytes) -> None:
    assert parse_record(data) is None


def test_half_a_surrogate_pair_becomes_text() -> None:
    record = parse_record(RECORD.to_json().replace(b"digits", b"\\ud800"))
    assert record is not None and record.name.encode()


def grow(record: RunRecord, *, attempts: int = 1, config: int = 0, metrics: int = 0) -> RunRecord:
    return replace(
        record,
        spec=replace(record.spec, train_loop_config={"text": "x" * config}),
        attempts=tuple(replace(ATTEMPT, number=n, message="é" * 100_000) for n in range(1, attempts + 1)),
        metrics={f"{n}": "v" * 256 for n in range(metrics)},
    )


@pytest.mark.parametrize(
    "sizes", [{"attempts": 500}, {"config": 10**6}, {"metrics": 900}, {"attempts": 500, "config": 10**5}]
)
def test_a_record_has_a_bound_and_keeps_its_newest_attempt(sizes: dict[str, int]) -> None:
    large = grow(RECORD, **sizes)
    data = large.to_json()
    record = parse_record(data)
    assert len(data) <= LIMIT_BYTES
    assert record is not None and record.uid == "u" and 0 < len(record.attempts) <= MOST_ATTEMPTS
    assert record.attempts[-1].number == large.attempts[-1].number
    assert record.spec.score_attribute == "loss"
