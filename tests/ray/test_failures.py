"""How attempts end, with a real Ray: each failure's class, message and exit code."""

from __future__ import annotations

import asyncio
import re
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from railhead.client.explain.attempt_spans import LOSSES
from railhead.client.explain.past_run import open_past_run
from railhead.client.run.run_list import list_runs, read_records
from railhead.client.run.run_storage import PathStorage
from railhead.contract import environment as e
from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import JobInput
from railhead.contract.outcome import Outcome
from railhead.contract.run_record import RunRecord
from railhead.driver.storage.claims import OUTCOME
from railhead.history import read_history
from tests.ray.pods import IS_SHARING_FOLDERS, Pods, describe_known, make_job, make_single_job, share_pod
from tests.ray.test_history import read_page
from tests.ray.test_log_archive import check_modes, find, read_path

REPORTING = """
import os, tempfile, time
import ray, ray.train
from railhead.training import link_tracker, run_id

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    print(f"trackers know rank {rank} as {os.environ['WANDB_RUN_ID']}", flush=True)
    link_tracker(f"https://tracker.example.com/{run_id()}")
    checkpoint = ray.train.get_checkpoint()
    first = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    print(f"rank {rank} believes {sum(node['Alive'] for node in ray.nodes())} nodes to be alive", flush=True)
    for epoch in range(first, config["epochs"]):
        print(f"epoch {epoch} of rank {rank}", flush=True)
        time.sleep(config["seconds"])
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if rank == 0:
                with open(os.path.join(folder, "epoch"), "w") as file:
                    file.write(str(epoch))
                made = ray.train.Checkpoint.from_directory(folder)
            loss = epoch + 0.5
            ray.train.report({"epoch": epoch, "loss": loss, "note": os.environ.get("NOTE", "")}, checkpoint=made)
"""
SECRET = "s3cr3t-0123456789"


@dataclass(frozen=True)
class Attempts:
    """A run of three attempts: the first loses a worker pod, gets another one, and then receives SIGTERM.

    The second succeeds. The third one begins as if the operator had not heard of that, and has no worker pod.

    Attributes:
        was_stored: whether the run's folder got the success before the operator had answered its report.
        done: the last epoch that the first attempt has noted as committed. One more may be: SIGTERM may come between a
            commit and its note, and the second attempt resumes from what is stored.
        shown: an epoch that only the second group of the first attempt has trained.
        epochs: the total that the second attempt trains.
    """

    storage: str
    first: Pods
    second: Pods
    third: Pods
    done: int
    shown: int
    epochs: int
    first_outcome: Outcome
    second_outcome: Outcome
    third_outcome: Outcome
    was_stored: bool

    @property
    def run(self) -> Path:
        return Path(self.storage, self.first.job.run_name)


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    folder = tmp_path_factory.mktemp("attempts")
    source = {"user.py": REPORTING, "queue.py": "raise RuntimeError('not the standard library')"}
    storage = str(folder / "runs")
    given = {"NOTE": f"with {SECRET}", "TRACKER_TOKEN": SECRET}
    # On its own Ray would not detect a lost node within this test.
    never = {**given, "RAY_health_check_period_ms": "600000", e.POD_UID: "00000001-aaaa-bbbb"}

    def make(epochs: int) -> JobInput:
        return make_job(framework="Python", train_loop_config={"epochs": epochs, "seconds": 0.2})

    with Pods(folder / "1", make(1000), source=source, storage=storage) as first:
        first.start(env=never)
        first.wait_until(lambda: any(r["reports"] >= 3 for r in first.reports))
        first.kill("w1-0")
        first.start_worker(1, round_=1, env=never)
        first.wait_until(lambda: first.reports[-1]["state"] == "RESTARTING")
        before = max(r["reports"] for r in first.reports)
        # The lost group may have trained one epoch more than it reported, and started another one.
        first.wait_until(lambda: first.reports[-1]["state"] == "RUNNING" and first.reports[-1]["reports"] >= before + 4)
        shown = first.reports[-1]["reports"] - 1
        # Ray forwards lines late, and SIGTERM does not wait for them.
        first.wait_until(lambda: len(read_believed(first)) >= 4)
        first.wait_until(lambda: all(f"(rank {r}) epoch {shown} of rank {r}\n" in first.read_log() for r in (0, 1)))
        first.wait_until(lambda: "Infrastructure: lost node" in first.read_log())
        first.terminate("head")
        assert first.wait_ended(timeout=60) == FailureClass.PREEMPTION.exit_code
        first_outcome = first.read_outcome()
    assert first_outcome.checkpoint is not None
    newest = first_outcome.checkpoint
    done, epochs = newest.index, newest.index + 5
    known = describe_known(replace(newest, attempt=1))
    second = Pods(folder / "2", share_pod(make(epochs)), source=source, storage=storage)
    outcome = Path(storage, second.job.run_name, OUTCOME)
    answered: list[dict[str, Any]] = []

    def answer_once_stored(report: dict[str, Any]) -> None:
        if report.get("outcome"):
            second.wait_until(outcome.exists)
            answered.append(report)

    second.answer = answer_once_stored
    own = {**given, e.KNOWN_CHECKPOINTS: known, e.POD_UID: "00000002-aaaa-bbbb"}
    with second:
        second.start(workers=1, attempt=2, checkpoint_index=done, env=own)
        assert second.wait_ended() == SUCCEEDED_CODE, second.read_log()
        second_outcome = second.read_outcome()
    with Pods(folder / "3", make(epochs), source=source, storage=storage) as third:
        third.start_head(attempt=3)
        assert third.wait_ended() == SUCCEEDED_CODE, third.read_log()
        third_outcome = third.read_outcome()
    return Attempts(
        *(storage, first, second, third, done, shown, epochs),
        *(first_outcome, second_outcome, third_outcome, bool(answered)),
    )


def read_believed(pods: Pods) -> list[int]:
    """The number of live nodes that each rank of each group sees at its start."""
    return [int(count) for count in re.findall(r"rank \d believes (\d) nodes to be alive", pods.read_log())]


def test_lost_worker_pod_is_replaced_in_the_same_fit(attempts: Attempts) -> None:
    assert "RESTARTING" in [r["state"] for r in attempts.first.reports]
    log = attempts.first.read_log()
    assert "Infrastructure: lost node" in log
    copies = 3 if IS_SHARING_FOLDERS else 1  # each of the three nodes reads the one folder of logs
    for rank in (0, 1):
        assert 0 < log.count(f"(rank {rank}) epoch {attempts.shown} of rank {rank}\n") <= copies
    outcome, last = attempts.second_outcome, attempts.epochs - 1
    assert outcome.outcome == "Succeeded"
    assert (outcome.metrics["epoch"], outcome.metrics["loss"]) == (str(last), f"{last}.5")
    assert attempts.second.reports[-1]["state"] == "FINISHED"
    log = attempts.second.read_log()
    for rank in (0, 1):
        assert 0 < log.count(f"(rank {rank}) epoch {last} of rank {rank}\n") <= copies


def test_ray_is_notified_of_a_lost_node_and_schedules_nothing_there(attempts: Attempts) -> None:
    assert set(read_believed(attempts.first)) == {3}, "the head and the two live pods"
    assert "notified Ray that node " in attempts.first.read_log()


def test_new_attempt_resumes_from_the_last_checkpoint_and_sigterm_ends_at_once(attempts: Attempts) -> None:
    assert attempts.first_outcome.outcome == "Preemption"
    done, second = attempts.done, attempts.second
    log = second.read_log()
    trained = [e for e in range(attempts.epochs) if f"(rank 0) epoch {e} of rank 0\n" in log]
    assert done < trained[0] <= done + 2, "no recorded epoch is trained again"
    assert trained == list(range(trained[0], attempts.epochs))
    assert second.reports[-1]["attempt"] == 2
    assert second.reports[-1]["resumed_from"]["uri"].startswith(attempts.storage)
    assert attempts.second_outcome.checkpoint is not None
    assert attempts.second_outcome.checkpoint.index == attempts.epochs - 1


def test_trackers_know_both_attempts_by_one_id_whose_link_is_reported(attempts: Attempts) -> None:
    """The groups of the first attempt are lost before the controller asks how far they are, which tells the link."""
    name = attempts.first.job.run_name
    for pods, groups in ((attempts.first, 2), (attempts.second, 1)):
        log = pods.read_log()
        assert log.count(f"trackers know rank 0 as {name}\n") == groups
        assert log.count(f"trackers know rank 1 as {name}-rank1\n") == groups
    assert attempts.second.reports[-1]["tracker_url"] == f"https://tracker.example.com/{name}"


def test_the_next_attempt_of_a_run_that_has_succeeded_trains_nothing(attempts: Attempts) -> None:
    assert attempts.was_stored, "the operator may never hear of the success"
    wanted, outcome = attempts.second_outcome, attempts.third_outcome
    log, last = attempts.third.read_log(), attempts.third.reports[-1]
    assert "trackers know" not in log and "Ray Train is imported" not in log
    assert "Succeeded: an earlier attempt had finished training before its head was lost" in log
    assert (outcome.checkpoint, outcome.metrics, outcome.reports) == (wanted.checkpoint, wanted.metrics, wanted.reports)
    assert (last["state"], last["outcome"]["outcome"], last["metrics"]) == ("FINISHED", "Succeeded", wanted.metrics)
    assert last["run_uri"] == str(attempts.run)


def test_the_history_of_all_attempts_is_read_when_their_pods_are_gone(attempts: Attempts) -> None:
    kept = read_history(read_segments(attempts.run, "metrics"))
    journal = read_history(read_segments(attempts.run, "journal"))
    assert (kept.skipped, kept.dropped, kept.every) == (0, 0, 1)
    curve = [(each["attempt"], each["metrics"]["epoch"], each["metrics"]["loss"]) for each in kept.records]
    assert read_page(attempts.first.folder, str(attempts.run), {}) == [
        f"{a} {epoch} {loss}" for a, epoch, loss in curve
    ]
    assert all(loss == epoch + 0.5 for _, epoch, loss in curve)
    second = [
        (each["report"], each["metrics"]["epoch"], each["workers"]) for each in kept.records if each["attempt"] == 2
    ]
    begun = second[0][1]
    assert second == [(1 + epoch - begun, epoch, 2) for epoch in range(begun, attempts.epochs)]
    assert {each["metrics"]["note"] for each in kept.records} == {"with (hidden)"}
    stories = {n: [each["event"] for each in journal.records if each["attempt"] == n] for n in (1, 2)}
    assert set(LOSSES) & set(stories[1]), stories
    assert (stories[1][0], stories[2][0], stories[1][-1], stories[2][-1]) == ("state", "resume", "end", "end"), stories
    assert stories[2].index("state") < stories[2].index("group") < stories[2].index("checkpoint"), stories
    ends = [(each["outcome"], each["reason"]) for each in journal.records if each["event"] == "end"]
    assert ends[:2] == [("Preemption", "Terminated"), ("Succeeded", "TrainingSucceeded")]
    record = find_record(attempts.run)
    assert [(each.number, each.outcome) for each in record.attempts][:2] == [(1, "Preemption"), (2, "Succeeded")]
    assert SECRET not in record.to_json().decode() + str(kept) + str(journal)
    (row,) = list_runs({attempts.run.name: record}, now=datetime.now(UTC))
    assert row.state == "Succeeded" and row.goodput is not None and row.goodput > 0
    opened = asyncio.run(open_past_run(PathStorage(attempts.storage), attempts.run.name, record))
    assert opened.notes == () and opened.checkpoints[-1].is_newest


def read_segments(run: Path, kind: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (run / ".railhead" / kind).iterdir()}


def find_record(run: Path) -> RunRecord:
    found = asyncio.run(read_records(PathStorage(str(run.parent))))
    assert found.notes == ()
    return found.records[run.name]


# Both ranks' parts of a checkpoint have a fixed name, so that the test can block it. Once all is stored,
# rank 1 dies once, and raises the next time.
FAILING = """
import os, pathlib, tempfile, time
import ray.train, ray.train.collective

class OnlyHere(Exception):
    pass

def store(config):
    context = ray.train.get_context()
    for step in range(3):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, str(context.get_world_rank())).write_text("state")
            made = ray.train.Checkpoint.from_directory(folder)
            mode = getattr(ray.train.CheckpointUploadMode, config["mode"])
            ray.train.report(
                {}, checkpoint=made, checkpoint_dir_name=f"step-{step}", checkpoint_upload_mode=mode,
                delete_local_checkpoint_after_upload=False,
            )
            ray.train.get_all_reported_checkpoints()  # waits until it is committed

def train_func(config):
    stored = pathlib.Path(config["stored"])
    died = pathlib.Path(config["died"])
    if not stored.exists():
        store(config)
        ray.train.collective.barrier()
        stored.touch()
    rank = ray.train.get_context().get_world_rank()
    print("last words of rank", rank, "and not", os.environ.get("TRACKER_TOKEN"), flush=True)
    if rank == 1 and not died.exists():
        died.touch()
        os.kill(os.getpid(), 11)
    if rank == 1:
        raise OnlyHere("the loss is not a number")
    time.sleep(60)
"""


@dataclass(frozen=True)
class FailedRun:
    """A run that fails in three ways: its storage takes no checkpoint, a rank dies, a rank raises."""

    pods: Pods
    outcome: Outcome
    run: Path

    def find_retried(self) -> list[tuple[str, str]]:
        """Class and message of each failure after which the group was formed again."""
        return re.findall(r"railhead +[\d.]+s  (\w+): (.*); restarting the worker group", self.pods.read_log())


def fail(folder: Path, *, mode: str) -> FailedRun:
    config = {"mode": mode, "stored": str(folder / "stored"), "died": str(folder / "died")}
    # train_func may fail once: the storage's failures must not be charged to it.
    archive: dict[str, Any] = {"archive_logs": "Failed", "archive_per_rank": 2**22, "archive_per_run": 2**30}
    job = share_pod(make_job(framework="Python", train_loop_config=config, max_failures=1, **archive))
    run = folder / "runs" / job.run_name
    full = run / "step-1"
    full.mkdir(parents=True)
    for rank in range(2):
        (full / str(rank)).symlink_to("/dev/full")  # a write answers that no space is left
    with Pods(folder / "pods", job, source={"user.py": FAILING}, storage=str(folder / "runs")) as pods:
        pods.start(workers=1, env={"TRACKER_TOKEN": SECRET, e.POD_UID: "00000001-aaaa-bbbb"})
        pods.wait_until(lambda: "restarting the worker group" in pods.read_log())
        shutil.rmtree(full)
        assert pods.wait_ended() == FailureClass.APPLICATION.exit_code, pods.read_log()
        # A worker pod archives its log when it ends.
        pods.terminate("w0-0")
        pods.wait_ended("w0-0", timeout=60)
        return FailedRun(pods, pods.read_outcome(), run)


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> FailedRun:
    return fail(tmp_path_factory.mktemp("failing"), mode="SYNC")


def check_storage_is_charged(failed: FailedRun) -> None:
    *storage, (kind, message) = failed.find_retried()
    assert storage and {kind for kind, _ in storage} == {"Infrastructure"}
    start = "run.storagePath: a checkpoint could not be written: rank "
    assert all(start in text and "No space left on device" in text for _, text in storage)
    assert kind == "Application", message


def test_failing_storage_is_not_charged_to_train_func(failed_run: FailedRun) -> None:
    check_storage_is_charged(failed_run)


@pytest.mark.slow
def test_failing_storage_in_a_background_upload_is_not_charged_either(tmp_path: Path) -> None:
    check_storage_is_charged(fail(tmp_path, mode="ASYNC"))


def test_each_failure_is_reported_with_its_own_message(failed_run: FailedRun) -> None:
    died = failed_run.find_retried()[-1]
    assert died[0] == "Application" and "rank 1: Fatal Python error: Segmentation fault" in died[1]
    assert "its process died; Ray says: Worker " in died[1], "and Ray's own message"
    outcome = failed_run.outcome
    assert outcome.outcome == "Application"
    for word in ("rank 1", "OnlyHere: the loss is not a number", "user.py, line 34, in train_func"):
        assert word in outcome.message
    last = failed_run.pods.reports[-1]
    assert (last["state"], last["outcome"]["outcome"]) == ("ERRORED", "Application")
    assert "the loss is not a number" in last["outcome"]["message"]


def test_a_failed_attempt_leaves_its_journal_and_the_logs_of_all_its_processes(failed_run: FailedRun) -> None:
    files = read_path(failed_run.run)
    assert "Z last words of rank 1 and not (hidden)\n" in find(files, "1")
    assert "Z last words of rank 0 and not (hidden)\n" in find(files, "0")
    assert "joining" not in find(files, "0") and "the Ray node exited with code" in find(files, "worker")
    head = find(files, "head")
    assert "starting Ray's head at" in head and "Application: " in head
    assert "last words" not in head.replace(failed_run.outcome.message, ""), "a rank's lines are with the rank"
    check_modes(failed_run.run)
    story = [each["event"] for each in read_history(read_segments(failed_run.run, "journal")).records]
    assert story[-1] == "end" and "failure" in story and "notice" not in story
    [attempt] = find_record(failed_run.run).attempts
    assert (attempt.outcome, attempt.reason) == ("Application", "TrainFunctionRaised")


@pytest.mark.slow  # tests/unit/driver/rank/test_train_stub.py has the other messages
def test_code_that_a_worker_cannot_import_is_reported_with_its_own_message(tmp_path: Path) -> None:
    with Pods(tmp_path, make_single_job(train_func="absent:train_func"), source={"user.py": FAILING}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.outcome == "Configuration"
    assert "ModuleNotFoundError: No module named 'absent'" in outcome.message
    assert pods.reports[-1]["state"] == "ERRORED"


def test_an_invalid_storage_path_is_rejected_before_workers_start(tmp_path: Path) -> None:
    """A storage path that is a file: no worker pod is needed."""
    (tmp_path / "file").write_text("")
    with Pods(tmp_path / "pods", make_job(), source={"user.py": FAILING}, storage=str(tmp_path / "file")) as pods:
        pods.start_head()
        assert pods.wait_ended(timeout=180) == FailureClass.CONFIGURATION.exit_code
        message = pods.read_outcome().message
        assert "run.storagePath" in message
        assert "NotADirectoryError" in message


def test_a_ray_that_is_too_old_is_rejected_with_a_message(tmp_path: Path) -> None:
    """By its metadata, before it is imported."""
    (tmp_path / "old" / "ray-2.51.1.dist-info").mkdir(parents=True)
    (tmp_path / "old" / "ray-2.51.1.dist-info" / "METADATA").write_text("Name: ray\nVersion: 2.51.1\n")
    with Pods(tmp_path / "pods", make_job(), source={"user.py": FAILING}) as pods:
        pods.start_head(PYTHONPATH=str(tmp_path / "old"))
        assert pods.wait_ended(timeout=180) == FailureClass.CONFIGURATION.exit_code
        outcome = pods.read_outcome()
        assert outcome.reason == "RayTooOld"
        assert "spec.image has Ray 2.51.1, but Railhead needs Ray 2.52 or newer" in outcome.message


# Two functions of Ray Train are gone once its modules are imported.
REMOVES = """
import sys
from importlib.abc import MetaPathFinder

GONE = {
    "ray.train.v2.api.data_parallel_trainer": ("DataParallelTrainer._initialize_and_run_controller",),
    "ray.train.v2._internal.execution.checkpoint.checkpoint_manager": ("delete_fs_path",),
}

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        gone = GONE.pop(name, ())
        if not gone:
            return None
        spec = next(s for f in sys.meta_path if f is not self and (s := f.find_spec(name, path, target)))
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (execute(module), [remove(module, each) for each in gone])
        return spec

def remove(owner, name):
    *owners, last = name.split(".")
    for each in owners:
        owner = getattr(owner, each)
    delattr(owner, last)

sys.meta_path.insert(0, Finder())
"""


def test_a_ray_without_what_the_driver_needs_is_rejected_by_name_before_workers_start(tmp_path: Path) -> None:
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "sitecustomize.py").write_text(REMOVES)
    with Pods(tmp_path / "pods", make_job(), source={"user.py": REPORTING}) as pods:
        pods.start_head(PYTHONPATH=str(tmp_path / "newer"))
        assert pods.wait_ended(timeout=180) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "RayTrainNotUsable"
    assert "data_parallel_trainer.DataParallelTrainer._initialize_and_run_controller" in outcome.message
    assert "checkpoint_manager.delete_fs_path" in outcome.message


def test_a_dead_ray_head_is_an_infrastructure_failure(tmp_path: Path) -> None:
    """Also while fit() waits for worker pods, none of which this test needs."""
    with Pods(tmp_path, make_single_job(), source={"user.py": REPORTING}) as pods:
        pods.start_head()
        pods.wait_until(lambda: "0 of 1 worker pods have joined" in pods.read_log())
        logs = {path.name for path in (pods.temp_of("head") / "session_latest" / "logs").iterdir()}
        assert "gcs_server.out" in logs
        assert not {name for name in logs if "client_server" in name}, "nothing listens for Ray Client"
        check_dead_head(pods)


@pytest.mark.slow  # the head of `attempts` that receives SIGTERM keeps its checkpoint too
def test_a_ray_head_that_dies_while_ranks_train_loses_no_checkpoint(tmp_path: Path) -> None:
    config = {"epochs": 1000, "seconds": 0.2}
    with Pods(tmp_path, make_single_job(train_loop_config=config), source={"user.py": REPORTING}) as pods:
        pods.start(workers=1)
        pods.wait_until(lambda: any(r["reports"] >= 1 for r in pods.reports))
        check_dead_head(pods)
        assert pods.read_outcome().checkpoint is not None


def check_dead_head(pods: Pods) -> None:
    pods.kill_process("gcs_server")
    assert pods.wait_ended(timeout=180) == FailureClass.INFRASTRUCTURE.exit_code, pods.read_log()
    outcome = pods.read_outcome()
    why = "gcs_server was killed by SIGKILL, as happens when the head pod runs out of memory (spec.head.resources)"
    assert outcome.reason == "RayHeadEnded"
    assert outcome.message.startswith(f"Ray's head has lost a process: {why}")
