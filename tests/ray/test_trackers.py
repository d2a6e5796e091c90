"""One run in each tracker over a lost worker and a new attempt: MLflow's real server, W&B offline, TensorBoard."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.run_folder import RECORD
from tests.ray.pods import Pods, make_job
from tests.ray.trackers import Mlflow, install_clients, serve_mlflow

RUN = "test-0a1b2c3d"
TRAINING = """
import contextlib, os, tempfile, time
import ray.train
import railhead.training

def read_first_step():
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        return int(open(os.path.join(folder, "step")).read()) + 1

@contextlib.contextmanager
def open_trackers(first):
    import mlflow, wandb
    import railhead.training.mlflow
    from torch.utils.tensorboard import SummaryWriter

    mlflow.set_experiment("digits")
    writer = SummaryWriter(f"{os.environ['TENSORBOARD_DIR']}/{railhead.training.run_id()}", purge_step=first)
    with railhead.training.mlflow.start_run(), wandb.init(project="digits") as run, writer:
        print(f"W&B run {run.id} {run.name}", flush=True)

        def log(step, loss):
            mlflow.log_metrics({"loss": loss}, step=step)
            run.log({"loss": loss}, step=step)
            writer.add_scalar("loss", loss, step)
            writer.flush()

        yield log

def train_func(config):
    first = read_first_step()
    is_first = ray.train.get_context().get_world_rank() == 0
    with open_trackers(first) if is_first else contextlib.nullcontext() as log:
        for step in range(first, config["steps"]):
            time.sleep(0.2)
            if is_first:
                log(step, 1 / (step + 1))
            with tempfile.TemporaryDirectory() as folder:
                made = None
                if is_first:
                    with open(os.path.join(folder, "step"), "w") as file:
                        file.write(str(step))
                    made = ray.train.Checkpoint.from_directory(folder)
                ray.train.report({"step": step}, checkpoint=made)
"""
READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(json.dumps([event.step for event in events.Scalars("loss")]))
"""


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "track-experiments.md"
EXAMPLES = """
import example_1, example_2, example_3

def train_func():
    for example in (example_1, example_2, example_3):
        example.read_first_step = int  # from scratch, and not from the last checkpoint of the example before
        example.train_func()
"""


@dataclass(frozen=True)
class Trackers:
    """The trackers of a job, which all keep their data in the folder.

    Attributes:
        variables: the job's environment.
    """

    folder: Path
    mlflow: Mlflow
    variables: dict[str, str]

    def list_offline_runs(self) -> list[str]:
        """Returns the ids of the folders that W&B has left, the earliest first."""
        names = sorted(path.name for path in (self.folder / "wandb" / "wandb").glob("offline-run-*"))
        return [name.split("-", 3)[3] for name in names]

    def read_events(self) -> list[int]:
        """Returns the steps that TensorBoard shows of the only run that it has."""
        (folder,) = (self.folder / "tensorboard").iterdir()
        command = [sys.executable, "-c", READ_EVENTS, str(folder)]
        done = subprocess.run(command, env=self.variables, capture_output=True, text=True, check=True, timeout=120)
        found: list[int] = json.loads(done.stdout)
        return found


@dataclass(frozen=True)
class Tracked:
    """A run of two attempts, of which the first loses a worker pod.

    Attributes:
        reports: those of the first attempt, and those of the second one.
    """

    trackers: Trackers
    steps: int
    reports: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    logs: str
    record: dict[str, Any]


@contextmanager
def start_trackers(folder: Path) -> Iterator[Trackers]:
    (folder / "wandb").mkdir()
    clients = install_clients()
    with serve_mlflow(folder) as mlflow:
        variables = {
            "PYTHONPATH": str(clients),
            "MLFLOW_TRACKING_URI": mlflow.address,
            "WANDB_MODE": "offline",
            "WANDB_DIR": str(folder / "wandb"),
            "TENSORBOARD_DIR": str(folder / "tensorboard"),
        }
        yield Trackers(folder, mlflow, variables)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracked]:
    folder = tmp_path_factory.mktemp("tracked")
    with start_trackers(folder) as trackers:
        variables = trackers.variables

        def make(number: int, steps: int) -> Pods:
            job = make_job(framework="Python", train_loop_config={"steps": steps})
            return Pods(folder / str(number), job, source={"user.py": TRAINING}, storage=str(folder / "runs"))

        with make(1, 1000) as first:
            first.start(env=variables)
            first.wait_until(lambda: any(each["reports"] >= 3 for each in first.reports))
            first.kill("w1-0")
            first.start_worker(1, round_=1, env=variables)
            first.wait_until(lambda: first.reports[-1]["state"] == "RESTARTING")
            before = max(each["reports"] for each in first.reports)
            first.wait_until(lambda: any(each["reports"] >= before + 3 for each in first.reports))
            first.terminate("head")
            first.wait_ended()
            checkpoint = first.read_outcome().checkpoint
            assert checkpoint is not None
        steps = checkpoint.index + 5
        with make(2, steps) as second:
            second.start(attempt=2, checkpoint_index=checkpoint.index, env=variables)
            assert second.wait_ended() == SUCCEEDED_CODE, second.read_log()
            logs = first.read_log() + second.read_log()
        record = json.loads((folder / "runs" / second.job.run_name / RECORD).read_text())
        yield Tracked(trackers, steps, (first.reports, second.reports), logs, record)


@pytest.mark.slow
def test_mlflow_has_one_run_with_all_steps(tracked: Tracked) -> None:
    mlflow = tracked.trackers.mlflow
    (run,) = mlflow.list_runs()
    assert (run["info"]["run_name"], run["info"]["status"]) == (RUN, "FINISHED")
    steps = mlflow.list_steps(run["info"]["run_id"], "loss")
    assert sorted(set(steps)) == list(range(tracked.steps))
    assert len(steps) - tracked.steps <= 4, "only what no checkpoint has kept is logged again"


@pytest.mark.slow
def test_the_link_of_mlflow_is_reported_by_both_attempts_and_recorded(tracked: Tracked) -> None:
    mlflow = tracked.trackers.mlflow
    (run,) = mlflow.list_runs()
    info = run["info"]
    link = f"{mlflow.address}/#/experiments/{info['experiment_id']}/runs/{info['run_id']}"
    for reports in tracked.reports:
        assert reports[-1]["tracker_url"] == link
    assert tracked.record["tracker_url"] == link


@pytest.mark.slow
def test_wandb_has_one_run_without_a_line_of_code(tracked: Tracked) -> None:
    """Each group has left a folder, which `wandb sync` uploads to the run of this id."""
    assert tracked.trackers.list_offline_runs() == [RUN] * 3
    assert tracked.logs.count(f"W&B run {RUN} {RUN}") == 3


@pytest.mark.slow
def test_tensorboard_has_one_folder_with_each_step_once(tracked: Tracked) -> None:
    (folder,) = (tracked.trackers.folder / "tensorboard").iterdir()
    assert folder.name == RUN
    assert tracked.trackers.read_events() == list(range(tracked.steps))


@pytest.mark.slow
def test_the_examples_of_the_page_log_each_step_once(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(# train\.py\n.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    source = {f"example_{number}.py": block for number, block in enumerate(blocks, 1)}
    steps = list(range(1000))
    with start_trackers(tmp_path) as trackers:
        job = make_job(framework="Python")
        with Pods(tmp_path / "job", job, source={"user.py": EXAMPLES, **source}) as pods:
            pods.start(env=trackers.variables)
            assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        (run,) = trackers.mlflow.list_runs()
        assert trackers.mlflow.list_steps(run["info"]["run_id"], "loss") == steps
        assert trackers.list_offline_runs() == [RUN]
        assert trackers.read_events() == steps
