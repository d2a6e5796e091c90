"""run.callbacks and forwarded output with a real Ray: the callback that raises is named, the head repeats one rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from railhead.contract.failure import FailureClass
from tests.ray.pods import Pods, make_job, share_pod

CODE = """
import sys
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
    rank = ray.train.get_context().get_world_rank()
    print(f"output of {rank}", flush=True)
    print(f"an error of {rank}", file=sys.stderr, flush=True)
    for step in range(100):
        ray.train.report({"rank": rank, "step": step})
        if step == 1:
            print(f"last words of {rank}", flush=True)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    """The pods of a job that a callback has ended."""
    job = share_pod(
        make_job(
            framework="Python",
            callbacks=["user:Notes", "user:Stops"],
            max_failures=3,
            forward_logs="Rank0",
        )
    )
    with Pods(tmp_path_factory.mktemp("ended"), job, source={"user.py": CODE}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=300) == FailureClass.APPLICATION.exit_code, pods.read_log()
        yield pods


def test_callbacks_run_in_the_controller_and_one_that_raises_is_named(ended: Pods) -> None:
    outcome = ended.read_outcome()
    assert f"noted {ended.job.run_name} [0, 1]" in ended.read_log()
    assert outcome.reason == "CallbackRaised"
    assert outcome.message == (
        "run.callbacks user:Stops: after_report raised KeyError: 'colour' (user.py, line 13, in after_report)"
    )


def test_the_head_repeats_the_lines_of_rank_0_only(ended: Pods) -> None:
    head, worker = ended.read_log(), ended.read_log("w0-0")
    logs = [path for name in ("head", "w0-0") for path in ended.temp_of(name).glob("session_2*/logs/*.out")]
    waiting = [path.name for path in logs if "Initializing exporter" in path.read_text(errors="replace")]
    for text in ("output", "an error", "last words"):
        assert f"(rank 0) {text} of 0\n" in head
        assert f"{text} of 1\n" not in head
        assert {f"(rank {rank}) {text} of {rank}" for rank in range(2)} <= set(worker.splitlines())
    assert "(TrainController pid=" in head
    assert {path.name for path in logs} >= {"gcs_server.out", "raylet.out"}
    assert not waiting, "Ray waits 30 s for a metrics agent that this Ray does not have, and then logs an error"
