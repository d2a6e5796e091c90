"""What a failure on a real GPU means, and that a rank which is killed leaves no memory of its GPU behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract.answer import Answer
from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import JobInput
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.gpu.devices import GPUS, needs_gpus
from tests.ray.pods import Pods
from tests.unit.builders import make_spec

pytestmark = needs_gpus(1)


def make_gpu_job() -> JobInput:
    """One rank on one GPU."""
    spec = make_spec(scaling={"numWorkers": 1, "useGPU": True}, trainer={"trainFunc": "user:train_func"})
    return build_job_input(JobRef("default", "test", "0a1b2c3d-0000-0000-0000-000000000000"), spec)


# Takes most of what is free, so that there is no room for it twice.
KILLED = """
import os, signal
from pathlib import Path
import ray.train, torch


def train_func():
    note = Path(os.environ["HOME"], "bytes")
    is_first = not note.exists()
    if is_first:
        note.write_text(str(torch.cuda.mem_get_info()[0] * 6 // 10))
    block = torch.zeros(int(note.read_text()), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    ray.train.report({"bytes": block.numel()})
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    print("the memory was free", flush=True)
"""


def test_a_killed_rank_restarts_in_place_with_its_memory_free(tmp_path: Path) -> None:
    with Pods(tmp_path, make_gpu_job(), source={"user.py": KILLED}) as pods:
        pods.answer = lambda report: Answer(restarts_in_place=1)
        pods.start_head()
        pods.start_worker(0, env={"CUDA_VISIBLE_DEVICES": GPUS[0]})
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        log, last = pods.read_log(), pods.reports[-1]
    assert "the memory was free" in log
    assert (last["restart"]["number"], last["restart"]["reason"]) == (1, "TrainingProcessDied")
    assert not any(report["lost_pods"] for report in pods.reports), "the pod stays"


OUT_OF_MEMORY = """
import torch


def train_func():
    torch.empty(torch.cuda.mem_get_info()[1] * 2, dtype=torch.uint8, device="cuda")
"""
# Also shows that all GPUs still answer after an error of CUDA: otherwise it would be GPUFailed.
ASSERTION = """
import os
import ray.train, torch


def train_func():
    ray.train.report({"a": 1})
    print(f"counted {os.environ['RAILHEAD_GPUS']} GPUs", flush=True)
    torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")]
    torch.cuda.synchronize()
"""


@pytest.mark.parametrize(
    ("code", "words"), [(OUT_OF_MEMORY, "CUDA out of memory"), (ASSERTION, "device-side assert triggered")]
)
def test_an_error_of_the_function_on_a_gpu_is_the_applications(tmp_path: Path, code: str, words: str) -> None:
    with Pods(tmp_path, make_gpu_job(), source={"user.py": code}) as pods:
        pods.start_head()
        pods.start_worker(0, env={"CUDA_VISIBLE_DEVICES": GPUS[0]})
        assert pods.wait_ended(timeout=300) == FailureClass.APPLICATION.exit_code, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
    assert outcome.reason == "TrainFunctionRaised" and words in outcome.message
    assert code != ASSERTION or ("counted " in log and "counted 0 " not in log)
