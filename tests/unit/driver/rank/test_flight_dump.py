"""Reads dumps of torch's flight recorder, whatever is in them, and gives what fits."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from railhead.driver.rank.flight_dump import INPUT_BYTES, OUTPUT_BYTES, STACKS_BYTES, read_dump, write_json
from tests.unit.driver.flight_dumps import Call, make_dump, pickle_dump, run


def read(data: bytes) -> Any:
    found = read_dump(data)
    return found and json.loads(zlib.decompress(found))


@pytest.mark.parametrize("version", ["2.1", "2.4", "2.10"])
def test_gives_what_tells_collectives_apart(version: str) -> None:
    calls = [Call("all_reduce", 1), Call("broadcast", 2, "scheduled", group=("5", "tensor"), sizes=((3, 4), ()))]
    found = read(pickle_dump(make_dump(calls, groups={"5": ("tensor", [0, 2])}, version=version)))
    assert found["pg_config"] == {"5": {"name": "5", "desc": "tensor", "ranks": "[0, 2]"}}
    last = found["entries"][1]
    assert [each["profiling_name"] for each in found["entries"]] == ["nccl:all_reduce", "nccl:broadcast"]
    assert (last["process_group"], last["collective_seq_id"], last["state"]) == (["5", "tensor"], 2, "scheduled")
    assert (last["input_sizes"], last["input_dtypes"]) == ([[3, 4], []], [] if version == "2.1" else ["Float"] * 2)
    assert found["stacks"][last["stack"]][1] == "/opt/app/train.py:88 train_step"
    assert "NCCL_SOCKET_IFNAME" not in json.dumps(found), "no environment"


class Maker:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_calls_something_calls_nothing(tmp_path: Path) -> None:
    dump = {**make_dump(run(1)), "version": Maker(tmp_path / "made")}
    assert read_dump(pickle_dump(dump)) is None
    assert not (tmp_path / "made").exists()
    assert pickle.loads(pickle_dump(dump)) and (tmp_path / "made").exists(), "it is a call that works elsewhere"


def grow(dump: dict[str, Any]) -> bytes:
    """With 8 million dictionaries of one byte each, which take 500 MB."""
    data = pickle_dump({**dump, "padding": []})
    return data[:-2] + b"(" + b"}" * (INPUT_BYTES - len(data) - 2) + b"e" + data[-2:]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        pickle_dump(make_dump(run(3)))[:-40],
        grow(make_dump(run(3))),
        pickle_dump({**make_dump(run(3)), "padding": "x" * INPUT_BYTES}),
        pickle_dump({"entries": [{"process_group": 5}]}),
        pickle_dump(make_dump([])),
    ],
    ids=["empty", "torn", "too much memory", "too large", "other fields", "no entries"],
)
def test_gives_nothing_of_what_is_no_dump(data: bytes) -> None:
    assert read_dump(data) is None


def test_a_process_that_takes_too_long_is_ended() -> None:
    assert read_dump(pickle_dump(make_dump(run(3))), timeout=0) is None


def test_keeps_the_newest_entries_when_there_is_no_room_for_all() -> None:
    dump = make_dump([Call("all_reduce", number, sizes=((1024,),) * 32) for number in range(4000)])
    for entry in dump["entries"]:
        frame = {"name": "train_step", "filename": f"/opt/app/step-{entry['record_id']}.py", "line": 1}
        entry["frames"] = [frame] * 20
    text = write_json(dump)
    found = json.loads(text)
    assert len(text) <= OUTPUT_BYTES
    assert found["entries"][-1]["collective_seq_id"] == 3999 and len(found["entries"]) > 500
    assert "stack" in found["entries"][-1] and "stack" not in found["entries"][0]
    assert len(json.dumps(found["stacks"])) <= STACKS_BYTES
