"""`dcp.save(..., every=...)` in a live job: storage that does not answer, and the loss of a worker pod."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from railhead.contract.snapshot import SNAPSHOT, parse_snapshot
from tests.e2e.cluster import Cluster, Object, wait_until
from tests.e2e.command_line import CommandLine
from tests.e2e.jobs import NO_RESTARTS, make_job, read_starts, with_config

NAME = "saves"
EVERY = 1.0
# Trains until the ranks know of a loss. Rank 1's storage does not answer while the file "hang" is there, until the file
# "release" is. Rank 0 notes the first step of each group, and each save: its group, its step, and the times before and
# after the call.
CODE = """
import os, time
import torch, torch.distributed as dist
from railhead import training
from railhead.driver.rank import steps
from railhead.training import _paced_saves, _storage_files, dcp

_paced_saves.STUCK_SECONDS = 1.0
add = _storage_files.WriteProgress.add


def add_unless_it_hangs(progress, size):
    while dist.get_rank() == 1 and has("hang") and not has("release"):
        time.sleep(0.05)
    add(progress, size)


_storage_files.WriteProgress.add = add_unless_it_hangs


def has(name):
    return os.path.exists(os.path.join(os.environ["NOTES"], name))


def note(name, *values):
    if dist.get_rank() == 0:
        with open(os.path.join(os.environ["NOTES"], name), "a") as notes:
            notes.write(" ".join(map(str, values)) + "\\n")


def train_func(config):
    os.makedirs(os.environ["NOTES"], exist_ok=True)
    state = {"weight": torch.zeros(1000), "step": 0}
    dcp.load(state)
    first = state["step"]
    assert state["weight"].tolist() == [float(first)] * 1000, "a mixture of two checkpoints"
    note("starts", first)
    is_lost = torch.tensor(0)
    while not is_lost:
        state["step"] += 1
        state["weight"].fill_(float(state["step"]))
        training.progress(state["step"])
        before = time.monotonic()
        if dcp.save(state, metrics={"step": state["step"]}, every=config["every"]):
            note("saves", first, state["step"], before, time.monotonic())
        time.sleep(0.02)
        is_lost = torch.tensor(steps.read_losses().number)
        dist.all_reduce(is_lost, op=dist.ReduceOp.MAX)
    dcp.save(state, metrics={"step": state["step"]})
"""


@pytest.mark.slow
@pytest.mark.node
def test_a_lost_pod_costs_what_came_after_the_last_save_and_silent_storage_ends_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = make_job(NAME, cluster.image, code=CODE)
    job["spec"]["trainer"]["framework"] = "Torch"
    job["spec"]["scaling"]["resourcesPerWorker"]["memory"] = "1Gi"
    cluster.apply(with_config(job, every=EVERY))
    wait_for_commits(cluster, 2)
    cluster.make_file("runs", f"notes-{NAME}/hang")
    condition = wait_until("the condition", lambda: find_trouble(cluster), tell=lambda: cluster.tell(NAME))
    assert condition["reason"] == "CheckpointNotWritten"
    assert "rank 1 " in condition["message"] and "__1_0.distcp" in condition["message"]
    why = CommandLine(cluster, tmp_path)("why", NAME)
    assert "CheckpointNotWritten" in why and "rank 1 " in why and "The storage takes no checkpoint" in why, why
    before = count_commits(cluster)
    cluster.make_file("runs", f"notes-{NAME}/release")
    wait_for_commits(cluster, before + 1)
    assert read_starts(cluster, NAME) == [0], "no group has restarted"
    wait_until("a measured stall", lambda: read_stall(cluster) > 0, tell=lambda: cluster.tell(NAME))
    newest = read_committed(cluster)[-1]
    head = cluster.head_pod(NAME)
    [lost] = [name for name in cluster.pod_names(NAME) if name.endswith("-w1-0")]
    cluster("delete", "pod", lost, "--grace-period=0", "--force")
    status = cluster.wait_end(NAME)
    assert status["phase"] == "Succeeded", cluster.tell(NAME)
    assert (status["attempt"], status["round"], status["head"]["pod"]) == (1, 1, head)
    assert status["restarts"] == {**NO_RESTARTS, "disruptions": 1}
    check_saves(cluster, newest)
    assert find_trouble(cluster) is None, "the next commit has ended it"
    assert sum(status["goodput"]["interruptions"].values()) == 1
    cluster.delete_job(NAME)


def check_saves(cluster: Cluster, newest: int) -> None:
    """`newest`: the last step that was committed before the loss."""
    lines = cluster.read_file("runs", f"notes-{NAME}/saves").decode().splitlines()
    saves = [(int(first), int(step), float(began), float(ended)) for first, step, began, ended in map(str.split, lines)]
    for one, other in itertools.pairwise(saves):
        assert one[0] != other[0] or other[3] - one[2] >= EVERY, "of one group, so of one clock"
    begun = [step for _, step, _, _ in saves]
    start, again = read_starts(cluster, NAME)
    assert start == 0 and again >= newest and again in begun, (again, newest, begun)
    assert any(step > again for step in begun), "the second group saves as well"


def find_trouble(cluster: Cluster) -> Object | None:
    conditions = cluster.status(NAME).get("conditions") or []
    found = (each for each in conditions if each["type"] == "StorageUnavailable" and each["status"] == "True")
    return next(found, None)


def read_stall(cluster: Cluster) -> int:
    """The time in ms for which training has waited for saves; an ended job has it in its goodput, in seconds."""
    spent = (cluster.status(NAME).get("progress") or {}).get("spent") or {}
    return int(spent.get("checkpointing", 0))


def count_commits(cluster: Cluster) -> int:
    return int((cluster.status(NAME).get("checkpoint") or {}).get("index", -1)) + 1


def wait_for_commits(cluster: Cluster, number: int) -> None:
    wait_until(f"{number} commits", lambda: count_commits(cluster) >= number, tell=lambda: cluster.tell(NAME))


def read_committed(cluster: Cluster) -> list[int]:
    """The steps of the checkpoints in the run's folder, in the order of their commits."""
    run = Path(cluster.status(NAME)["runURI"]).name
    entries = parse_snapshot(cluster.read_file("runs", f"{run}/{SNAPSHOT}").decode()).entries
    return [int(entry.metrics["step"]) for entry in entries]
