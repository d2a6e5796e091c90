"""run.callbacks with a real Ray: called in the controller, and the one that raises is named."""

from __future__ import annotations

from pathlib import Path

from railhead.contract.failure import FailureClass
from tests.ray.pods import Pods, make_job, share_pod

CODE = """
import ray.train
from ray.train import UserCallback

class Notes(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        print("noted", run_context.run_config.name, [each["rank"] for each in metrics], flush=True)

class Stops(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        if metrics[0]["step"] == 2:
            raise KeyError("colour")

def train_func():
    for step in range(100):
        ray.train.report({"rank": ray.train.get_context().get_world_rank(), "step": step})
"""


def test_callbacks_run_in_the_controller_and_one_that_raises_is_named(tmp_path: Path) -> None:
    job = share_pod(make_job(framework="Python", backend={}, callbacks=["user:Notes", "user:Stops"], max_failures=3))
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=300) == FailureClass.APPLICATION.exit_code, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
        assert f"noted {job.run_name} [0, 1]" in log
        assert outcome.reason == "CallbackRaised"
        assert outcome.message == (
            "run.callbacks user:Stops: after_report raised KeyError: 'colour' (user.py, line 12, in after_report)"
        )
