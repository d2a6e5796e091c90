"""Strategies, labels and accelerator types: the operator's requests to Ray match the pods' nodes.

The job whose ranks are spread has a spec.runtimeEnv too: each of its nodes makes that environment for itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import JobInput
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.ray.pods import Pods
from tests.unit.builders import make_spec

CODE = """
import json
import ray, ray.train


def train_func():
    context = ray.train.get_context()
    [node] = [n for n in ray.nodes() if n["NodeID"] == ray.get_runtime_context().get_node_id()]
    labels = {k: v for k, v in node["Labels"].items() if not k.startswith("ray.io/")}
    sees = {"rank": context.get_world_rank(), "node": node["NodeManagerAddress"], "labels": labels}
    print(f"sees {json.dumps(sees)}", flush=True)
"""
IMPORTS = """
import os
import ray.train
import bricks, mortar, wall
import places

def train_func():
    places.train_func()
    names = [bricks.NAME, mortar.NAME, wall.NAME, os.environ["LESSON"]]
    print(" ".join(["rank", str(ray.train.get_context().get_world_rank()), "imports", *names]))
    heavy = os.path.join(os.path.dirname(bricks.__file__), "heavy.bin")
    print(f"left out: {not os.path.exists(heavy)}")
"""
# train_func's own module is in spec.source and in working_dir, a part of it.
SOURCE = {
    "lib/user.py": IMPORTS,
    "lib/places.py": CODE,
    "lib/bricks.py": "NAME = 'of-working-dir'",
    "lib/heavy.bin": "x",
    "mods/mortar/__init__.py": "NAME = 'of-py-modules'",
    "elsewhere/wall.py": "NAME = 'of-pythonpath'",
    "user.py": "raise RuntimeError('hidden by the one of working_dir')",
}
SPREAD = {
    "numWorkers": 2,
    "placementStrategy": "STRICT_SPREAD",
    "useGPU": True,
    "acceleratorType": "H100",
    "rayLabelSelector": {"example.com/pool": "a", "zone": "in(x, y)", "spot": "!true"},
}


def make_input(*, accelerator: str | None = None, **scaling: Any) -> JobInput:
    """By the operator's own builder; `accelerator` is the type that Ray would detect on the nodes."""
    spec = make_spec(scaling=scaling, trainer={"trainFunc": "user:train_func", "framework": "Python"})
    job = build_job_input(JobRef("default", "test", "0a1b2c3d-0000-0000-0000-000000000000"), spec)
    worker = job.ray_node.worker
    if accelerator:
        worker = replace(worker, resources={**worker.resources, f"accelerator_type:{accelerator}": 1.0})
    return replace(job, ray_node=replace(job.ray_node, worker=worker))


def read_views(log: str) -> list[dict[str, Any]]:
    lines = [line for line in log.splitlines() if "sees {" in line]
    return sorted((json.loads(line.split("sees ", 1)[1]) for line in lines), key=lambda seen: int(seen["rank"]))


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Pods:
    """The pods of a job with `SPREAD` and an environment, the second of which joins late; it has ended."""
    folder = tmp_path_factory.mktemp("spread")
    runtime_env = {
        "env_vars": {"LESSON": "of-env-vars", "PYTHONPATH": str(folder / "source" / "elsewhere")},
        "working_dir": "lib",
        "excludes": ["heavy.bin"],
        "py_modules": ["mods/mortar"],
    }
    job = replace(make_input(accelerator="H100", **SPREAD), runtime_env=runtime_env)
    with Pods(folder, job, source=SOURCE) as pods:
        pods.start(workers=1, env={"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "2"})
        pods.wait_until(lambda: "those that have joined have room for 1 of 2 workers" in pods.read_log())
        pods.start_worker(1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
    return pods


def test_each_rank_is_on_its_own_node_chosen_by_label_and_type(spread: Pods) -> None:
    sees = read_views(spread.read_log())
    assert "RESTARTING" not in {report["state"] for report in spread.reports}, "it has not run yet"
    assert [seen["rank"] for seen in sees] == [0, 1]
    assert len({seen["node"] for seen in sees}) == 2
    assert all(seen["labels"] == {"example.com/pool": "a"} for seen in sees)


def test_every_rank_sees_variables_modules_and_the_working_dir(spread: Pods) -> None:
    log = spread.read_log()
    for rank in (0, 1):
        assert f"rank {rank} imports of-working-dir of-py-modules of-pythonpath of-env-vars" in log
        assert f"(rank {rank}) left out: True" in log


@pytest.mark.slow  # tests/unit/resources has the requests of each strategy, and the test above another one
def test_all_ranks_are_in_one_pod(tmp_path: Path) -> None:
    job = make_input(numWorkers=2, workersPerPod=2, placementStrategy="STRICT_PACK")
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        sees = read_views(pods.read_log())
    assert [seen["rank"] for seen in sees] == [0, 1]
    assert len({seen["node"] for seen in sees}) == 1
    assert not any(seen["labels"] for seen in sees)


@pytest.mark.slow  # tests/unit/driver/head/test_ray_cluster.py has the other types
def test_a_wrong_accelerator_is_reported_without_waiting(tmp_path: Path) -> None:
    job = make_input(numWorkers=1, useGPU=True, acceleratorType="H100")
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "AcceleratorNotThere"
    assert outcome.message.startswith("scaling.acceleratorType H100: worker pod ")
    assert "has no GPU of a type that Ray knows;" in outcome.message
    assert "worker.podTemplate.spec.nodeSelector" in outcome.message
