"""Who never entered a collective, with a real Ray and torch's own recorder: of ranks that died, and of ranks that hang.

Of gloo's collectives, since there is no GPU: Ray assigns one that does not exist. The test itself aborts the rank, with
the words of NCCL's watchdog.
"""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.contract.answer import Answer
from railhead.contract.failure import FailureClass
from railhead.contract.job_input import BackendInput, RayNode, RayNodes, ScalingInput
from tests.ray.pods import Pods, make_job

HANGS = """
import os, pathlib, pickle, sys, threading, time
import ray.train, torch
from torch import distributed
from torch._C import _distributed_c10d

WORDS = (
    "[rank0]:[E1124 13:57:28.955679474 ProcessGroupNCCL.cpp:629] [Rank 0] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE) ran for 600000 milliseconds "
    "before timing out."
)

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    groups = pathlib.Path(config["folder"], f"groups-{rank}")
    number = len(groups.read_text()) if groups.exists() else 0
    groups.write_text("x" * (number + 1))
    distributed.all_reduce(torch.ones(4))
    while not pickle.loads(_distributed_c10d._dump_fr_trace())["entries"][0]["retired"]:  # by a thread of torch's
        time.sleep(0.01)
    work = None if rank else distributed.all_reduce(torch.ones(8), async_op=True)
    if number == 0 and rank == 0:
        path = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank)
        pathlib.Path(path).write_bytes(_distributed_c10d._dump_fr_trace())
        print(WORDS, file=sys.stderr, flush=True)
        os.abort()
    if number == 1:
        ray.train.report({"group": number})
    threading.Event().wait()
"""


GPU = RayNode(cpus=1, gpus=1, resources={}, object_store_bytes=100_000_000)
NCCLRAS = """#!/bin/sh
echo "$@" >> "$HOME/asked"
exit 1
"""


@pytest.mark.slow
def test_after_an_abort_and_after_a_hang_the_rank_that_never_entered_is_the_suspect(tmp_path: Path) -> None:
    if tuple(int(part) for part in metadata.version("torch").split(".")[:2]) < (2, 15):
        pytest.skip("only newer versions of torch record gloo's collectives")
    job = replace(
        make_job(train_loop_config={"folder": str(tmp_path)}, backend=BackendInput("gloo")),
        scaling=ScalingInput(2, use_gpu=True, resources_per_worker={"CPU": 1.0, "GPU": 1.0}),
    )
    job = replace(job, ray_node=RayNodes(replace(GPU, cpus=0, gpus=0), GPU))
    program = tmp_path / "bin" / "ncclras"
    program.parent.mkdir()
    program.write_text(NCCLRAS)
    program.chmod(0o755)
    with Pods(tmp_path, job, source={"user.py": HANGS}) as pods:
        pods.answer = lambda report: Answer(1 if report["reports"] else 600, restarts_in_place=3)
        path = {"PATH": f"{program.parent}:/usr/bin:/bin", "RAY_TRAIN_NCCL_RAS_MIN_POLL_INTERVAL_S": "0.5"}
        pods.start(env={e.PROGRESS_DEADLINE: "600", **path})
        assert pods.wait_ended(timeout=240) == FailureClass.HANG.exit_code, pods.read_log()
        log, reports, outcome = pods.read_log(), pods.reports, pods.read_outcome()
    [restart] = {json.dumps(report["restart"]): report["restart"] for report in reports if report["restart"]}.values()
    begin = "rank 1 never entered ALLREDUCE #2 of default_pg, in which rank 0 waits: "
    assert restart["message"].startswith(begin) and outcome.message.startswith(begin)
    assert (restart["cause"], restart["reason"]) == ("Hang", "CollectiveTimedOut")
    assert (outcome.outcome, outcome.reason) == ("Hang", "ProgressDeadlineExceeded")
    host = socket.gethostname()  # the name of all pods here
    assert (restart["suspect_pod"], outcome.suspect_pod) == (host, host)
    dumps = sorted((tmp_path / "runs" / job.run_name / ".railhead" / "dumps").glob("*/*"))
    assert [str(Path(*file.parts[-2:])) for file in dumps] == [
        f"1-{number}/rank-{rank}.json" for number in (1, 2) for rank in (0, 1)
    ]
    entries = json.loads(dumps[0].read_text())["entries"]
    assert [entry["profiling_name"] for entry in entries] == ["gloo:all_reduce"] * 2
    assert "in " + str(dumps[0].parent) in log
    assert "-f json" in (tmp_path / "asked").read_text(), "Ray's own detector asks NCCL"
