"""Where the output of the ranks goes, with a real Ray."""

from __future__ import annotations

from pathlib import Path

from railhead.contract.failure import SUCCEEDED_CODE
from tests.ray.pods import Pods, make_job, share_pod

PRINTING = """
import sys
import ray.train

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    print(f"output of {rank}", flush=True)
    print(f"an error of {rank}", file=sys.stderr, flush=True)
    ray.train.report({"a": 1})
    print(f"last words of {rank}", flush=True)
"""


def test_the_head_repeats_the_lines_of_rank_0_only(tmp_path: Path) -> None:
    job = share_pod(make_job(framework="Python", forward_logs="Rank0"))
    with Pods(tmp_path, job, source={"user.py": PRINTING}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        head, worker = pods.read_log(), pods.read_log("w0-0")
        logs = [path for name in ("head", "w0-0") for path in pods.temp_of(name).glob("session_2*/logs/*.out")]
        waiting = [path.name for path in logs if "Initializing exporter" in path.read_text(errors="replace")]
    for text in ("output", "an error", "last words"):
        assert f"(rank 0) {text} of 0\n" in head
        assert f"{text} of 1\n" not in head
        assert {f"(rank {rank}) {text} of {rank}" for rank in range(2)} <= set(worker.splitlines())
    assert "(TrainController pid=" in head
    assert {path.name for path in logs} >= {"gcs_server.out", "raylet.out"}
    assert not waiting, "Ray waits 30 s for a metrics agent that this Ray does not have, and then logs an error"
