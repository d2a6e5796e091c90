"""SIGTERM to the head pod, with a real Ray and transformers.Trainer: its callback saves the last checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.contract.failure import FailureClass
from railhead.contract.job_input import BackendInput
from railhead.driver.container.packages import parse_version
from tests.ray.pods import RAY_VERSION, Pods, make_job, share_pod

# It never saves regularly.
TRAINING = """
import os, tempfile, time
import torch, transformers
from ray.train.huggingface.transformers import RayTrainReportCallback
from railhead.training.transformers import TrainJobCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}

class Watch(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.05)
        if state.global_step % 10 == 0:
            print(f"rank {args.process_index} has done step {state.global_step}", flush=True)

    def on_save(self, args, state, control, **kwargs):
        print(f"rank {args.process_index} has saved step {state.global_step}", flush=True)

def train_func():
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=100_000, save_strategy="no", logging_steps=1, report_to="none",
        use_cpu=True, disable_tqdm=True, per_device_train_batch_size=1,
    )
    rows = [{"x": torch.ones(1), "labels": torch.ones(1)}] * 100
    callbacks = [Watch(), TrainJobCallback(), RayTrainReportCallback()]
    transformers.Trainer(Model(), arguments, train_dataset=rows, callbacks=callbacks).train()
"""


@pytest.mark.slow  # tests/ray/test_drain.py has the notice, and tests/unit/training what becomes of it
@pytest.mark.skipif((parse_version(RAY_VERSION) or (0, 0)) < (2, 58), reason="this Ray does not notify ranks")
def test_transformers_saves_once_more_when_the_head_receives_sigterm(tmp_path: Path) -> None:
    job = share_pod(make_job(backend=BackendInput("gloo"), end_seconds=120))
    with Pods(tmp_path, job, source={"user.py": TRAINING}) as pods:
        pods.start(workers=1)
        pods.wait_until(lambda: "has done step 20" in pods.read_log())
        pods.terminate("head")
        assert pods.wait_ended() == FailureClass.PREEMPTION.exit_code, pods.read_log()
        saved = dict(re.findall(r"rank (\d) has saved step (\d+)", pods.read_log()))
        outcome = pods.read_outcome()
    assert saved["0"] == saved["1"] and int(saved["0"]) >= 20
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 0, "the only one"
    assert float(outcome.metrics["step"]) == int(saved["0"])
