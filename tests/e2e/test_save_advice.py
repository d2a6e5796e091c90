"""What `railhead why` advises a live job that saves too often, and what the same job's saves cost with "auto"."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conftest import echo
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.command_line import CommandLine
from tests.e2e.jobs import make_job

NAME = "advice"
SAVES = 4  # with "auto"
# Saves after each fifth step until the file "auto" is there, then lets the saves choose their time. Losses are taken to
# be so frequent that only the limit of what training may wait decides; otherwise each save would come a minute after
# the last. Rank 0 notes the time of each save that begins, and for how long training has waited for saves until then.
CODE = """
import os, time
import torch, torch.distributed as dist
from railhead import training
from railhead.contract import loss_rate
from railhead.driver.rank import steps
from railhead.training import _save_pace, dcp

_save_pace.LEAST_SECONDS = 0.5
loss_rate.FEW_GPUS_SECONDS = 1.0


def train_func():
    os.makedirs(os.environ["NOTES"], exist_ok=True)
    state = {"weight": torch.zeros(100_000), "step": 0}
    begun = 0
    is_auto = torch.tensor(0)
    while begun < SAVES:
        time.sleep(0.02)
        state["step"] += 1
        training.progress(state["step"])
        if is_auto:
            waited, _ = steps.read_times()
            now = time.monotonic()
            if dcp.save(state, metrics={"step": state["step"]}, every="auto"):
                begun += 1
                note(now, waited)
        elif state["step"] % 5 == 0:
            dcp.save(state, metrics={"step": state["step"]})
            is_auto.fill_(int(os.path.exists(os.path.join(os.environ["NOTES"], "auto"))))
            dist.all_reduce(is_auto, op=dist.ReduceOp.MIN)
    dcp.save(state, metrics={"step": state["step"]})


def note(*values):
    if dist.get_rank() == 0:
        with open(os.path.join(os.environ["NOTES"], "saves"), "a") as notes:
            notes.write(" ".join(map(str, values)) + "\\n")
""".replace("SAVES", str(SAVES))


@pytest.mark.slow
def test_a_live_job_that_saves_too_often_is_told_so_and_auto_makes_it_wait_one_percent_at_most(
    cluster: Cluster, tmp_path: Path
) -> None:
    if not cluster.is_local:
        pytest.skip("a real node has no fake GPUs, without which a job has no rate of losses but its own")
    scaling = {
        "numWorkers": 2,
        "workersPerPod": 2,
        "useGPU": True,
        "resourcesPerWorker": {"cpu": "200m", "memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    trainer = {"trainFunc": "steps:train_func", "backend": {"name": "gloo"}}
    cluster.apply(make_job(NAME, cluster.image, code=CODE, scaling=scaling, trainer=trainer))
    railhead = CommandLine(cluster, tmp_path)
    wait_until("three commits", lambda: has_commits(cluster), tell=lambda: cluster.tell(NAME))
    why = wait_until("the advice", lambda: read_advice(railhead), tell=lambda: cluster.tell(NAME))
    echo(why)
    assert "Meta's published rate for 2 GPUs, since few losses are known here" in why
    assert 'dcp.save(..., every="auto")' in why
    status = railhead("status", NAME)
    echo(status)
    assert "CheckpointsTooOften" in status
    cluster.make_file("runs", f"notes-{NAME}/auto")
    assert cluster.wait_end(NAME)["phase"] == "Succeeded", cluster.tell(NAME)
    lines = cluster.read_file("runs", f"notes-{NAME}/saves").decode().splitlines()
    saves = [tuple(map(float, line.split())) for line in lines]
    assert len(saves) == SAVES
    for (began, waited), (began_next, waited_next) in itertools.pairwise(saves):
        echo(f"{waited_next - waited:.3f} s of {began_next - began:.2f} s")
        assert 0 < waited_next - waited <= 0.01 * (began_next - began)
    cluster.delete_job(NAME)


def has_commits(cluster: Cluster) -> bool:
    """Whether the advice has enough to go by."""
    return int((cluster.status(NAME).get("checkpoint") or {}).get("index", -1)) >= 2


def read_advice(railhead: CommandLine) -> str:
    """What `railhead why` prints once it gives the advice; empty before."""
    found = railhead("why", NAME)
    if "CheckpointsTooOften" in found:
        return found
    return ""
