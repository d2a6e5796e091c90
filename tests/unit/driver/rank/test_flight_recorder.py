"""The variables of torch's flight recorder, and the record of a rank that lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.driver.container.packages import find_version
from railhead.driver.rank import flight_recorder
from railhead.driver.rank.flight_recorder import read_own_record, set_variables, switch_on_recorder
from railhead.driver.train_controller.failures.collectives import compare_records, parse_record

SWITCHES = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_ENABLE_MONITORING": "1"}
OLD = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/r-", **SWITCHES}
NEW = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": "/tmp/r-", **SWITCHES}


@pytest.mark.parametrize(
    ("torch", "expected"),
    [("2.4.1", OLD), ("2.7.1+cu126", OLD), ("2.8.0", NEW), ("2.15.0+cu132", NEW), ("3.0.0a0", NEW), ("", {})],
)
def test_each_torch_gets_the_names_that_it_reads_without_a_warning(torch: str, expected: dict[str, str]) -> None:
    environment: dict[str, str] = {}
    set_variables(environment, torch=torch, prefix="/tmp/r-")
    assert environment == expected


@pytest.mark.parametrize("name", ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"])
@pytest.mark.parametrize("torch", ["2.5.0", "2.9.1"])
def test_the_users_variables_win_under_either_name(torch: str, name: str) -> None:
    """torch prefers the new name, so the user's old one would lose against ours."""
    environment = {name: "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/mine/"}
    set_variables(environment, torch=torch, prefix="/tmp/r-")
    expected = {**environment, name: "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_ENABLE_MONITORING": "1"}
    assert environment == expected and "TORCH_FR_DUMP_TEMP_FILE" not in environment
    assert len([each for each in environment if each.endswith("BUFFER_SIZE")]) == 1


@pytest.mark.parametrize(("gpus", "is_on"), [([], False), ([3], True)])
def test_only_ranks_with_a_gpu_have_a_recorder(monkeypatch: pytest.MonkeyPatch, gpus: list[int], is_on: bool) -> None:
    environment = {e.TEMP: "/tmp/railhead"}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr("ray.get_gpu_ids", lambda: gpus)
    monkeypatch.setattr(flight_recorder, "find_version", lambda package: "2.9.0")
    switch_on_recorder()
    assert environment.get("TORCH_FR_DUMP_TEMP_FILE") == (
        f"/tmp/railhead/flight-record-{os.getpid()}-" if is_on else None
    )


def test_without_torch_there_is_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert read_own_record() is None


RANK = """
import os, pickle, sys, time
from pathlib import Path
rank, folder = int(sys.argv[1]), Path(sys.argv[2])
from railhead.driver.rank.flight_recorder import read_own_record, set_variables
set_variables(os.environ, torch=sys.argv[3], prefix=str(folder / "unused-"))
import torch
from torch import distributed
from torch._C import _distributed_c10d
distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
distributed.all_reduce(torch.ones(4))
while not pickle.loads(_distributed_c10d._dump_fr_trace())["entries"][0]["retired"]:  # by a thread of torch's
    time.sleep(0.01)
works = [] if rank else [distributed.all_reduce(torch.ones(8), async_op=True)]
(folder / f"record-{rank}").write_bytes(read_own_record())
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""


def test_contract_the_recorder_of_the_installed_torch_tells_who_never_entered(tmp_path: Path) -> None:
    """Of gloo, whose collectives torch records as it does NCCL's, since there is no GPU here."""
    torch = find_version("torch")
    if tuple(int(part) for part in torch.split(".")[:2]) < (2, 15):
        pytest.skip(f"torch {torch} is not known to record gloo's collectives")
    path = os.pathsep.join(each for each in sys.path if each)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path), torch],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    for process in ranks:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in ranks:  # not before both have their records
        process.communicate()
    records = {rank: parse_record((tmp_path / f"record-{rank}").read_bytes()) for rank in (0, 1)}
    finding = compare_records({rank: each for rank, each in records.items() if each}, size=2)
    assert finding is not None
    assert finding.message == "rank 1 never entered ALLREDUCE #2 of default_pg, in which rank 0 waits"
    assert (finding.ranks, finding.is_clear) == ((1,), True)
