"""Ray's exceptions -> facts, with Ray's own classes; and the places in Ray that we rely on.

The second half is the contract with Ray: when a new version changes one of these places,
the test says which.
"""

from __future__ import annotations

import errno
import inspect
import pickle
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
    RaySystemError,
    RayTaskError,
    RuntimeEnvSetupError,
)
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError, WorkerHealthCheckFailedError
from ray.train.v2._internal.execution import callback as ray_callback
from ray.train.v2._internal.execution.failure_handling import FailureDecision, FailurePolicy
from ray.train.v2.api import data_parallel_trainer
from ray.train.v2.api.config import FailureConfig
from ray.train.v2.api.exceptions import ControllerError, NCCLHangError, WorkerGroupError

from railhead.contract import environment as e
from railhead.contract.answer import Answer
from railhead.contract.failure import FAIL, RESTART, RESTART_AND_IGNORE, Failure, FailureClass, FailureRule
from railhead.contract.report import RestartInPlace
from railhead.contract.times import parse_time
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import (
    AttemptFailed,
    JobRefused,
    TrainingError,
    Unreachable,
    explain_exception,
    note_exception,
)
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank.run_rank import RankEnd
from railhead.driver.ray import controller_parts
from railhead.driver.ray.nodes import LostNode
from railhead.driver.ray.steps_callback import StepsCallback
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.train_controller.failures import classify_failure as classify_failure_module
from railhead.driver.train_controller.failures import failure_policy, post_mortem
from railhead.driver.train_controller.failures.classify_failure import FailureOrigin, classify_failure
from railhead.driver.train_controller.failures.collectives import CollectiveMismatch
from railhead.driver.train_controller.failures.failure_policy import RetryDecider
from railhead.driver.train_controller.failures.ray_exceptions import translate_error, translate_rank_error
from railhead.driver.train_controller.progress_step import ProgressStep
from railhead.driver.train_controller.railhead_callback import RailheadCallback
from railhead.driver.train_controller.worker_group import Group, RankAnswer
from tests.unit.driver.mailboxes import tell

RAISED = TrainingError(RankErrorKind.RAISED, 1, "ValueError: no (user.py, line 3, in train_func)")


def join(workers: Any = None) -> Group:
    """The group with these workers, which have the parts of Ray's that the policy uses."""
    return Group(worker_group=workers)


def kinds(error: BaseException) -> tuple[FailureOrigin, list[RankErrorKind]]:
    facts = translate_error(error, Group())
    return facts.source, [each.kind for each in facts.errors]


def dead_actor(text: str) -> WorkerHealthCheckFailedError:
    actor_error = ActorDiedError()
    actor_error.error_msg = text
    return WorkerHealthCheckFailedError("A worker health check failed.", actor_error)


def test_rank_errors() -> None:
    unusable = TrainingError(RankErrorKind.UNUSABLE, 0, "ImportError: no")
    error = WorkerGroupError("text", {1: RAISED, 0: unusable, 2: dead_actor("gone"), 3: ValueError("plain")})
    assert kinds(error) == (
        FailureOrigin.WORKERS,
        [RankErrorKind.UNUSABLE, RankErrorKind.RAISED, RankErrorKind.DIED, RankErrorKind.RAISED],
    )


def test_distinguishes_memory_and_preemption_from_a_crash() -> None:
    advice = "Some common causes include: (1) the process was killed by the OOM killer due to high memory usage"
    assert kinds(WorkerGroupError("", {0: dead_actor(advice)}))[1] == [RankErrorKind.DIED]
    killed = "Task was killed due to the node running low on memory."
    assert kinds(WorkerGroupError("", {0: dead_actor(killed)}))[1] == [RankErrorKind.KILLED_FOR_MEMORY]
    waited = TrainingError(RankErrorKind.RAISED, 1, f"ray.exceptions.ActorDiedError: {killed}")
    assert kinds(WorkerGroupError("", {1: waited}))[1] == [RankErrorKind.KILLED_FOR_MEMORY]
    left = ActorDiedError()
    left._preempted = True
    assert kinds(WorkerGroupError("", {0: WorkerHealthCheckFailedError("", left)}))[1] == [RankErrorKind.PREEMPTED]


BY_SIGNAL = "Worker exits unexpectedly by a signal. SystemExit is raised. Exit code: 1. The process receives a SIGTERM."
GUESSES = "Some common causes include: (1) the process was killed by the OOM killer, (2) ray stop --force was called"
END_OF_FILE = "Worker unexpectedly exits with a connection error code 2. End of file."


@pytest.mark.parametrize(
    ("detail", "known"), [(f"{END_OF_FILE} {GUESSES}", END_OF_FILE), (BY_SIGNAL, BY_SIGNAL)], ids=["guesses", "signal"]
)
def test_of_a_dead_process_rays_guesses_and_numbers_are_left_out(detail: str, known: str) -> None:
    died = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: RayTrainWorker\n\tactor_id: 5eb3\n"
        "\tpid: 6746\n\tnamespace: railhead\n\tip: 10.0.0.2\nThe actor is dead because its worker process has died. "
        f"Worker exit type: SYSTEM_ERROR Worker exit detail: {detail}"
    )
    assert translate_rank_error(1, dead_actor(died), join()).text == f"its process died; Ray says: {known}"
    node = "The actor died because its node has died.\n\tclass_name: RayTrainWorker\n\tpid: 7\nNode Id: 3f"
    assert (
        translate_rank_error(1, dead_actor(node), join()).text
        == "The actor died because its node has died. Node Id: 3f"
    )


@pytest.mark.parametrize("actor", ["SynchronizationActor", "SplitCoordinator", "_AutoscalingCoordinatorActor"])
def test_a_lost_actor_of_ray_is_no_error_of_the_function(actor: str) -> None:
    """As raised by `report` in a group that formed after its node was lost, or by a dataset's shard
    when the process that feeds it has crashed."""
    died = "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n\tclass_name: {}\n\tactor_id: 7eeb"
    own = TrainingError(RankErrorKind.RAISED, 1, died.format(actor))
    users = TrainingError(RankErrorKind.RAISED, 1, died.format("Tokenizer"))
    assert kinds(WorkerGroupError("", {1: own}))[1] == [RankErrorKind.ABANDONED]
    assert kinds(WorkerGroupError("", {1: users}))[1] == [RankErrorKind.RAISED]


def test_an_error_of_an_upload_in_the_background_is_the_applications_unless_it_has_a_note() -> None:
    """`rank.uploads` adds the note to what the storage does not take."""
    noted = OSError("AWS Error SLOW_DOWN")
    note_exception(noted, TrainingError(RankErrorKind.STORAGE, -1, "OSError: AWS Error SLOW_DOWN"))
    assert explain_exception(noted, 3).rank == 3 and explain_exception(noted, 3).kind is RankErrorKind.STORAGE
    of_threads = {0: noted, 1: OSError("401 Client Error"), 2: FileNotFoundError("local"), 3: GetTimeoutError("late")}
    assert kinds(WorkerGroupError("", of_threads))[1] == [
        RankErrorKind.STORAGE,
        RankErrorKind.RAISED,
        RankErrorKind.RAISED,
        RankErrorKind.RAISED,
    ]


def test_an_error_of_rays_controller_about_a_report_is_the_applications() -> None:
    """As when the ranks' own upload functions return different checkpoints: a new attempt would do the same."""

    def after_report() -> None:
        raise RuntimeError("The storage path of the checkpoints in the training results is not the same.")

    def poll() -> None:
        raise KeyError("of Ray's own")

    found = []
    for function in (after_report, poll):
        try:
            function()
        except Exception as error:
            found.append(classify_failure(translate_error(ControllerError(error), Group())))
    assert [(each.class_, each.reason) for each in found] == [
        (FailureClass.APPLICATION, "TrainFunctionRaised"),
        (FailureClass.INFRASTRUCTURE, "RayTrainFailed"),
    ]
    assert found[0].message.startswith("Ray Train's controller does not accept what the ranks have reported: RuntimeE")


def test_a_runtime_env_that_fails_ends_the_run_with_rays_message() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in run\n'
    text = (
        f"[Node 10.0.0.1] {trace}OSError: first\n\nDuring handling:\n\n{trace}ValueError: no conda\nERROR: of conda\n"
    )
    error = ControllerError(RuntimeEnvSetupError(text))
    facts = translate_error(error, Group())
    assert facts.source == FailureOrigin.STARTUP
    found = classify_failure_module.classify_failure(facts)
    assert (found.class_, found.reason) == ("Configuration", "RuntimeEnvNotUsable")
    assert found.message == "spec.runtimeEnv: Ray cannot set it up: ValueError: no conda ERROR: of conda"
    assert not classify_failure_module.decide_retry(
        facts, found, classify_failure_module.RestartHistory(max_failures=3)
    )


def test_startup_and_controller_errors() -> None:
    assert kinds(ControllerError(WorkerGroupStartupTimeoutError(2))) == (FailureOrigin.STARTUP, [])
    assert kinds(ControllerError(ValueError("odd"))) == (FailureOrigin.CONTROLLER, [])
    unavailable = ActorUnavailableError("gone", None)
    assert kinds(ControllerError(unavailable)) == (FailureOrigin.WORKERS, [RankErrorKind.DIED])
    killed = OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.")
    assert kinds(ControllerError(killed)) == (FailureOrigin.WORKERS, [RankErrorKind.KILLED_FOR_MEMORY])
    assert kinds(RuntimeError("fit() itself")) == (FailureOrigin.CONTROLLER, [])


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (FULL, "CheckpointNotWritten"),
        (OSError("AWS Error SLOW_DOWN during PutObject operation"), "CheckpointNotWritten"),
        (FileNotFoundError(errno.ENOENT, "the folder of a mount that is away"), "CheckpointNotWritten"),
        (Unreachable("StorageUnreachable", "run.storagePath /runs: no response"), "StorageUnreachable"),
    ],
)
def test_a_storage_error_in_the_controller_is_retried_in_the_same_fit(
    tmp_path: Path, inner: Exception, reason: str
) -> None:
    """As raised by Ray's checkpoint manager, or by our fence: the controller survives and asks the policy."""
    decider = RetryDecider(Group(), Mailbox(tmp_path), max_failures=0)
    error = ControllerError(pickle.loads(pickle.dumps(inner)))
    tries = next(number for number in range(100) if not decider.decide(error))
    assert tries == classify_failure_module.UNEXPLAINED_LIMIT
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and (found.class_, found.reason) == (FailureClass.INFRASTRUCTURE, reason)
    assert str(inner) in found.message and "run.storagePath" in found.message


def test_a_full_disk_sets_a_warning_with_rank_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(LocalFileSystem(), str(tmp_path / "digits"))
    group = Group()
    group.folder = run
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0123456789")
    text = "OSError: [Errno 28] No space left on device 0123456789 (storage.py, line 9, in persist_current_checkpoint)"
    full = TrainingError(RankErrorKind.STORAGE, 3, text)
    decider = RetryDecider(group, Mailbox(tmp_path), max_failures=0)
    assert decider.decide(WorkerGroupError("", {3: full, 0: dead_actor("gone")}))
    warning = Mailbox(tmp_path).controller.read().warning
    assert warning is not None and warning.reason == "CheckpointNotWritten"
    assert warning.message.startswith(
        f"run.storagePath: a checkpoint could not be written: rank 3: {run.path}: OSError: [Errno 28] No space left on "
        "device (hidden) ("
    )
    decider.decide(WorkerGroupError("", {3: full, 0: TrainingError(RankErrorKind.UNUSABLE, 0, "ImportError: no")}))
    warning = Mailbox(tmp_path).controller.read().warning
    assert warning is not None and f"rank 3: {run.path}: OSError" in warning.message, "also beside another error"
    assert warning.message.endswith("; training restarts from the last checkpoint")
    tell(Mailbox(tmp_path).controller, warning=None)
    assert not decider.decide(WorkerGroupError("", {3: RAISED}))
    assert Mailbox(tmp_path).controller.read().warning is None, "an error of the function is no storage error"


def test_an_os_error_during_set_up_is_no_storage_error() -> None:
    other = RayTaskError("set_up", "Traceback ...\nOSError: no NIC", OSError("no NIC"))
    assert kinds(ControllerError(other.as_instanceof_cause())) == (FailureOrigin.WORKERS, [])
    assert kinds(ControllerError(GetTimeoutError("late"))) == (FailureOrigin.CONTROLLER, [])


def test_contract_ray_asks_the_policy_about_its_own_errors() -> None:
    """It restarts the group if the policy allows it: a failed write of the snapshot does not end the controller."""
    from ray.train.v2._internal.execution.controller.controller import TrainController

    source = inspect.getsource(TrainController._run_control_loop_iteration)
    assert "training_error = ControllerError(e)" in source and "make_decision(" in source
    retry = inspect.getsource(TrainController._get_retry_state)
    assert "RestartingState(training_failed_error=training_failed_error)" in retry
    assert "ReschedulingState(training_failed_error=training_failed_error)" in retry


def test_distinguishes_a_missing_framework_from_other_set_up_errors() -> None:
    """As raised by Ray for an error of a task: an instance of both classes."""
    missing = RayTaskError("set_up", "Traceback ...\nImportError: libjax.so: gone", ImportError("libjax.so: gone"))
    facts = translate_error(ControllerError(missing.as_instanceof_cause()), Group())
    assert [each.kind for each in facts.errors] == [RankErrorKind.MISSING]
    assert "spec.image" in facts.errors[0].text and "libjax.so: gone" in facts.errors[0].text
    trace = """traceback: Traceback (most recent call last):
  File "/opt/lib/ray/train/torch/__init__.py", line 3, in <module>
    import torch
OSError: libnccl.so.2: gone"""
    unread = RayTaskError("init_train_context", trace, RaySystemError("libnccl.so.2: gone", trace))
    facts = translate_error(ControllerError(unread.as_instanceof_cause()), Group())
    assert [each.kind for each in facts.errors] == [RankErrorKind.MISSING]
    assert "the trainer's framework (OSError: libnccl.so.2: gone)" in facts.errors[0].text
    other = RayTaskError("set_up", "Traceback ...\nValueError: no GPU", ValueError("no GPU"))
    assert kinds(ControllerError(other.as_instanceof_cause())) == (FailureOrigin.WORKERS, [])


def test_our_own_rejection_ends_the_run_with_its_message(tmp_path: Path) -> None:
    error = ControllerError(pickle.loads(pickle.dumps(JobRefused("StorageNotShared", "run.storagePath /runs: no"))))
    assert not RetryDecider(Group(), Mailbox(tmp_path), max_failures=-1).decide(error)
    found = Mailbox(tmp_path).controller.read().failure
    assert found == Failure(FailureClass.CONFIGURATION, "StorageNotShared", "run.storagePath /runs: no")


def test_the_policy_counts_to_max_failures_and_writes_the_failure(tmp_path: Path) -> None:
    decider = RetryDecider(Group(), Mailbox(tmp_path), max_failures=1)
    error = WorkerGroupError("text", {1: TrainingError(RankErrorKind.RAISED, 1, RAISED.text, exit_code=3)})
    assert decider.decide(error)
    assert Mailbox(tmp_path).controller.read().failure is None
    assert not decider.decide(error)
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None
    assert found.message == "rank 1: ValueError: no (user.py, line 3, in train_func)"
    assert found.process_exit_code == 3


def raises(text: str) -> WorkerGroupError:
    return WorkerGroupError("text", {1: TrainingError(RankErrorKind.RAISED, 1, text)})


def test_a_failure_restarts_the_group_in_the_same_pods_while_the_operators_budget_lasts(tmp_path: Path) -> None:
    decider, mailbox = RetryDecider(Group(), Mailbox(tmp_path), max_failures=None), Mailbox(tmp_path)
    assert not decider.decide(raises("ValueError: a")), "the operator has not sent a budget"
    tell(mailbox.driver, answer=Answer(restarts_in_place=2))
    killed = WorkerGroupError("", {0: OutOfMemoryError("killed due to the node running low on memory.")})
    assert decider.decide(killed)
    restart = mailbox.controller.read().restart
    assert restart is not None and parse_time(restart.time) is not None
    assert replace(restart, time="") == RestartInPlace(
        1, 1, "OutOfMemory", "OutOfMemory", "rank 0: killed due to the node running low on memory."
    )
    assert decider.decide(raises("ValueError: c"))
    assert (mailbox.controller.read().restart or RestartInPlace(0, 0)).charged == 2
    assert not decider.decide(killed), "the budget is spent"
    tell(mailbox.driver, answer=Answer(restarts_in_place=9))
    assert decider.decide(raises("ValueError: d")), "the budget was refilled or raised"


def test_the_same_failure_twice_gets_new_pods_unless_a_checkpoint_was_committed_in_between(
    tmp_path: Path,
) -> None:
    group = Group()
    tell(Mailbox(tmp_path).driver, answer=Answer(restarts_in_place=100))
    decider = RetryDecider(group, Mailbox(tmp_path), max_failures=None)
    for _ in range(5):
        assert decider.decide(raises("ValueError: once a day"))
        group.commits += 1
    assert [decider.decide(raises("ValueError: at once")) for _ in range(2)] == [True, False]


def test_a_hang_restarts_the_group_once_and_is_not_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group()
    monkeypatch.setattr(post_mortem, "find_difference", lambda records, processes, group: None)
    mailbox, decider = Mailbox(tmp_path), RetryDecider(group, Mailbox(tmp_path), max_failures=None)
    tell(mailbox.driver, answer=Answer(restarts_in_place=1))
    stuck = WorkerGroupError("", {0: TrainingError(RankErrorKind.STUCK, -1, "training reported nothing for 600 s")})
    assert decider.decide(stuck)
    assert replace(mailbox.controller.read().restart or RestartInPlace(0, 0), time="") == RestartInPlace(
        1, 0, "Hang", "ProgressDeadlineExceeded", "training reported nothing for 600 s"
    )
    assert not decider.decide(stuck)
    found = mailbox.controller.read().failure
    assert found is not None and found.class_ is FailureClass.HANG
    group.commits += 1
    assert not decider.decide(stuck), "a function that hangs after each checkpoint would restart forever"


def test_a_group_without_steps_is_a_hang(tmp_path: Path) -> None:
    mailbox, decider = Mailbox(tmp_path), RetryDecider(Group(), Mailbox(tmp_path), max_failures=None)
    tell(mailbox.driver, answer=Answer(restarts_in_place=1))
    assert decider.decide(
        WorkerGroupError("", {0: TrainingError(RankErrorKind.STEPLESS, -1, "no rank made a step for 1200 s")})
    )
    restart = mailbox.controller.read().restart
    assert restart is not None and (restart.charged, restart.cause, restart.reason) == (0, "Hang", "NoSteps")
    assert restart.message == "no rank made a step for 1200 s"


@pytest.mark.parametrize(
    ("kind", "is_retry", "class_"),
    [(RankErrorKind.RULED_AGAIN, True, "Application"), (RankErrorKind.RULED_OUT, False, "MetricRule")],
)
def test_a_metric_rule_restarts_the_group_and_is_charged_once_or_ends_the_job(
    tmp_path: Path, kind: RankErrorKind, is_retry: bool, class_: str
) -> None:
    mailbox, decider = Mailbox(tmp_path), RetryDecider(Group(), Mailbox(tmp_path), max_failures=None)
    tell(mailbox.driver, answer=Answer(restarts_in_place=2))
    assert decider.decide(WorkerGroupError("", {0: TrainingError(kind, -1, "rule r: loss is NaN")})) is is_retry
    told = mailbox.controller.read()
    if is_retry:
        assert replace(told.restart or RestartInPlace(0, 0), time="") == RestartInPlace(
            1, 1, class_, "MetricRule", "rule r: loss is NaN"
        )
    assert told.failure == (None if is_retry else Failure(FailureClass(class_), "MetricRule", "rule r: loss is NaN"))


@pytest.mark.parametrize(
    ("rules", "restarts"),
    [
        ([FailureRule(FAIL, exit_codes=(3,))], False),
        ([FailureRule(RESTART_AND_IGNORE, reasons=("TrainFunctionRaised",))], False),
        ([FailureRule(FAIL, exit_codes=(3,), is_not_in=True)], True),
        ([FailureRule(FAIL, classes=("Hang",))], True),
        ([FailureRule(RESTART, exit_codes=(3,)), FailureRule(FAIL, classes=("Application",))], True),
    ],
)
def test_a_rule_that_fails_or_ignores_the_failure_ends_the_attempt(
    tmp_path: Path, rules: list[FailureRule], restarts: bool
) -> None:
    """The operator then does what the rule says."""
    decider, mailbox = RetryDecider(Group(), Mailbox(tmp_path), max_failures=None), Mailbox(tmp_path)
    tell(mailbox.driver, answer=Answer(restarts_in_place=5, failure_rules=tuple(rules)))
    error = WorkerGroupError("text", {1: TrainingError(RankErrorKind.RAISED, 1, RAISED.text, exit_code=3)})
    assert decider.decide(error) == restarts
    assert (mailbox.controller.read().failure is None) == restarts


def test_finds_the_first_error_by_the_ranks_own_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of machines differ: each rank reports how long ago it ended."""
    ages = {0: 0.2, 1: 2.5}

    def collect(workers: object, ranks: list[int], function: object, *, timeout: float) -> dict[int, RankAnswer[Any]]:
        assert ranks == [0, 1, 2], "a dead process is not asked"
        return {rank: RankAnswer(RankEnd(age=ages[rank]) if rank in ages else None) for rank in ranks}

    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", lambda nodes: ())
    monkeypatch.setattr(failure_policy, "call_ranks", collect)
    broken = TrainingError(RankErrorKind.RAISED, 0, "RuntimeError: Connection closed by peer")
    error = WorkerGroupError("", {0: broken, 1: RAISED, 2: broken, 3: dead_actor("killed by the memory monitor")})
    facts = failure_policy.collect_facts(error, join(WorkerGroup([])))
    assert [each.age for each in facts.errors] == [0.2, 2.5, None, None]
    monkeypatch.setattr(failure_policy, "explain_deaths", lambda errors, processes, group: (errors[:3], None))
    assert not RetryDecider(join(WorkerGroup([])), Mailbox(tmp_path), max_failures=0).decide(error)
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and found.message.startswith("rank 1: ValueError: no")


@pytest.mark.parametrize(
    ("finding", "nodes", "suspect"),
    [
        (CollectiveMismatch("rank 1 never entered", (1,), is_clear=True), ["a", "b", "c"], "w-b"),
        (CollectiveMismatch("ranks 1 and 2 never entered", (1, 2), is_clear=True), ["a", "b", "b"], "w-b"),
        (CollectiveMismatch("ranks 1 and 2 never entered", (1, 2), is_clear=True), ["a", "b", "c"], ""),
        (CollectiveMismatch("rank 1 entered another", (1,)), ["a", "b", "c"], ""),
        (None, ["a", "b", "c"], ""),
    ],
)
def test_a_hang_has_the_pod_of_the_ranks_that_are_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finding: CollectiveMismatch | None, nodes: list[str], suspect: str
) -> None:
    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", lambda nodes: ())
    monkeypatch.setattr(failure_policy, "add_ages", lambda errors, group: errors)
    monkeypatch.setattr(post_mortem, "find_difference", lambda records, processes, group: finding)
    group = join(WorkerGroup(nodes))
    RetryDecider(group, Mailbox(tmp_path), max_failures=0).decide(
        WorkerGroupError("", {0: TrainingError(RankErrorKind.STUCK, -1, "no reports")})
    )
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and found.suspect_pod == suspect
    assert found.message == (f"{finding.message}: no reports" if finding else "no reports")


def test_only_after_a_hang_are_collectives_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", lambda nodes: ())
    monkeypatch.setattr(post_mortem, "find_difference", lambda records, processes, group: pytest.fail("compared"))
    group = join(WorkerGroup(["a", "b"]))
    assert not RetryDecider(group, Mailbox(tmp_path), max_failures=0).decide(WorkerGroupError("", {1: RAISED}))


def test_no_group_is_restarted_while_the_run_ends(tmp_path: Path) -> None:
    decider = RetryDecider(Group(), Mailbox(tmp_path), max_failures=-1)
    error = WorkerGroupError("text", {1: RAISED})
    assert decider.decide(error)
    tell(Mailbox(tmp_path).driver, end=1.0)
    assert not decider.decide(error)


def test_a_controller_without_our_callbacks_ends_the_job(tmp_path: Path) -> None:
    error = WorkerGroupError(
        "",
        {rank: TrainingError(RankErrorKind.UNFENCED, rank, "Ray Train's controller does not ...") for rank in (0, 1)},
    )
    assert not RetryDecider(Group(), Mailbox(tmp_path), max_failures=-1).decide(error)
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and (found.class_, found.reason) == (FailureClass.CONFIGURATION, "RayTrainNotUsable")


class WorkerGroup:
    """The parts of Ray's worker group that the policy uses."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes

    def get_workers(self) -> list[SimpleNamespace]:
        if not self.nodes:
            raise ValueError("Worker group is not active.")
        return [
            SimpleNamespace(metadata=SimpleNamespace(node_id=node, pid=7, node_ip="10.0.0.2", hostname=f"w-{node}"))
            for node in self.nodes
        ]


def test_a_failure_after_ray_replaced_a_lost_replica_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost node no longer belongs to the group."""

    def find_lost(nodes: Iterable[str]) -> tuple[LostNode, ...]:
        return tuple(LostNode(node, "10.0.0.9", is_known=True) for node in nodes if node == "lost")

    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", find_lost)
    monkeypatch.setattr("ray.nodes", list)
    workers = WorkerGroup(["ab", "lost"])
    group = join(workers)
    decider = RetryDecider(group, Mailbox(tmp_path), max_failures=0)
    assert decider.decide(WorkerGroupError("", {0: RAISED})), "a node is lost"
    workers.nodes = ["ab", "new"]
    assert not decider.decide(WorkerGroupError("", {0: RAISED}))
    workers.nodes = []
    found = group.read_processes()
    assert {rank: each.node_id for rank, each in found.items()} == {0: "ab", 1: "new"}, "the last known processes"


def test_lost_nodes_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        failure_policy, "wait_for_lost_nodes", lambda nodes: (LostNode("ab", "10.0.0.9", is_known=True, host="w1-0"),)
    )
    decider = RetryDecider(Group(), Mailbox(tmp_path), max_failures=0)
    assert Mailbox(tmp_path).controller.read().lost_pods == ()
    assert all(decider.decide(WorkerGroupError("", {0: dead_actor("gone"), 1: RAISED})) for _ in range(20))
    assert Mailbox(tmp_path).controller.read().lost_pods == ("w1-0",), "the operator replaces the pod at once"


def test_the_pod_of_a_broken_gpu_is_given_up_and_the_group_forms_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others stay."""
    given_up: list[LostNode] = []
    monkeypatch.setattr(failure_policy, "mark_dead_in_ray", given_up.extend)
    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", lambda nodes: ())
    monkeypatch.setattr("ray.nodes", lambda: [{"NodeID": n, "NodeManagerHostname": f"w-{n}"} for n in ("ab", "cd")])
    group = join(WorkerGroup(["ab", "ab", "cd"]))
    mailbox = Mailbox(tmp_path)
    tell(mailbox.driver, answer=Answer(restarts_in_place=1))
    decider = RetryDecider(group, Mailbox(tmp_path), max_failures=None)
    assert decider.decide(WorkerGroupError("", {1: TrainingError(RankErrorKind.RAISED, 1, ECC)}))
    assert mailbox.controller.read().lost_pods == ("w-ab",)
    assert given_up == [LostNode("ab", "10.0.0.2", is_known=False, host="w-ab")]
    restart = mailbox.controller.read().restart
    assert restart is not None and (restart.charged, restart.reason, restart.suspect_pod) == (0, "GPUFailed", "w-ab")
    assert decider.decide(WorkerGroupError("", {2: TrainingError(RankErrorKind.RAISED, 2, ECC)})), (
        "a second one, of another pod"
    )
    assert [each.host for each in given_up] == ["w-ab", "w-cd"]


def test_the_pod_of_a_process_that_does_not_end_is_given_up_and_the_group_forms_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[LostNode] = []
    monkeypatch.setattr(failure_policy, "mark_dead_in_ray", given_up.extend)
    group = join(WorkerGroup(["ab", "cd"]))
    mailbox = Mailbox(tmp_path)
    tell(mailbox.driver, answer=Answer(restarts_in_place=1))
    decider = RetryDecider(group, Mailbox(tmp_path), max_failures=None)
    stays = AttemptFailed(Failure(FailureClass.HARDWARE, "ProcessNotEnding", "process 7", suspect_pod="w-cd"))
    assert decider.decide(ControllerError(stays))
    assert mailbox.controller.read().lost_pods == ("w-cd",) and [node.host for node in given_up] == ["w-cd"]
    restart = mailbox.controller.read().restart
    assert restart is not None and (restart.charged, restart.reason) == (0, "ProcessNotEnding")


ECC = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered (user.py, line 9, in train_func)"
REMOTE = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited or there was a "
    "network error, NCCL version 2.21.5 ncclRemoteError: A call failed possibly due to a network error"
)
LATE = "torch.distributed.DistBackendError: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((ECC, "ValueError: no"), ("Hardware", "GPUFailed", "rank 0: torch.AcceleratorError")),
        (("ValueError: no", ECC), ("Hardware", "GPUFailed", "rank 1: torch.AcceleratorError")),
        (("RuntimeError: Unable to determine the device handle: GPU is lost",), ("Hardware", "GPUFailed", "rank 0: ")),
        (("RuntimeError: my feature store: system not yet initialized",), ("Application", "TrainFunc", "rank 0: ")),
        ((REMOTE, REMOTE), ("Hardware", "NetworkFailed", "rank 0: torch.distributed")),
        ((REMOTE, "ValueError: no"), ("Application", "TrainFunctionRaised", "rank 1: ValueError: no")),
        ((LATE,), ("Hang", "CollectiveTimedOut", "rank 0: torch.distributed")),
        ((LATE, ECC), ("Hardware", "GPUFailed", "rank 1: ")),
        (("RuntimeError: CUDA error: an illegal memory access was encountered",), ("Application", "TrainFunc", "rank")),
    ],
)
def test_distinguishes_broken_hardware_from_application_errors(
    texts: tuple[str, ...], expected: tuple[str, str, str]
) -> None:
    ranks = {rank: TrainingError(RankErrorKind.RAISED, rank, text) for rank, text in enumerate(texts)}
    found = classify_failure_module.classify_failure(translate_error(WorkerGroupError("text", ranks), Group()))
    assert found.class_.value == expected[0] and found.reason.startswith(expected[1])
    assert found.message.startswith(expected[2])


def test_rays_own_hang_detector_reports_a_hang() -> None:
    found = classify_failure_module.classify_failure(
        translate_error(NCCLHangError("rank 3 is 7 operations behind", worker_failures={}), Group())
    )
    assert (found.class_, found.reason) == (FailureClass.HANG, "CollectiveTimedOut")
    assert "rank 3 is 7 operations behind" in found.message


def test_broken_hardware_is_retried_ten_times_and_names_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", lambda nodes: ())
    monkeypatch.setattr(failure_policy, "mark_dead_in_ray", list)
    group = join(WorkerGroup(["cd", "ab"]))
    decider = RetryDecider(group, Mailbox(tmp_path), max_failures=None)
    tell(Mailbox(tmp_path).driver, answer=Answer(restarts_in_place=3))
    error = WorkerGroupError("text", {0: RAISED, 1: TrainingError(RankErrorKind.RAISED, 1, ECC)})
    assert [decider.decide(error) for _ in range(11)] == [True] * 10 + [False]
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and found.suspect_pod == "w-ab"
    assert found.message.startswith("pod w-ab: rank 1: torch.AcceleratorError")


def test_a_hang_names_the_pod_for_which_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_policy, "wait_for_lost_nodes", lambda nodes: ())
    group = join(WorkerGroup(["cd", "ab"]))
    assert not RetryDecider(group, Mailbox(tmp_path), max_failures=0).decide(
        WorkerGroupError(
            "",
            {
                0: TrainingError(
                    RankErrorKind.STUCK, 1, "training reported nothing for 600 s: rank 1 (pod w-ab) is elsewhere"
                )
            },
        )
    )
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and (found.reason, found.suspect_pod) == ("ProgressDeadlineExceeded", "w-ab")
    assert found.message.startswith("training reported nothing")


def test_knows_the_ranks_before_their_process_group_forms_and_which_nodes_have_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = join()
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    monkeypatch.setenv("RAILHEAD_RUN", "")
    RunContext(str(tmp_path / "runs" / "r")).write()
    workers: Any = WorkerGroup(["ab", "cd"])
    run = RunContext.read()
    callback = StepsCallback([group, ProgressStep(group, Mailbox(tmp_path), run)])
    assert callback.before_init_train_context(workers.get_workers()) == {}
    text = "ray::A.run() (pid=7, ip=10.0.0.9)\nray::B.run() (pid=7, ip=10.0.0.2, actor_id=ab)\nValueError"
    assert (group.find_rank(text), group.find_rank("ValueError")) == (1, -1)
    assert not group.has_trained(0), "no report yet"
    callback.after_worker_group_start(workers)
    report: Any = SimpleNamespace(checkpoint=None, metrics={})
    callback.after_report(report, [{}])
    assert group.has_trained(0) and not group.has_trained(2)
    others: Any = WorkerGroup(["new", "cd"])
    callback.before_init_train_context(others.get_workers())
    assert [group.has_trained(rank) for rank in (0, 1)] == [False, True]


def test_a_group_that_waits_for_nodes_is_retried_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray waits a minute per try; nodes may join an hour late."""
    slots = 3
    monkeypatch.setattr(failure_policy, "count_worker_slots", lambda: slots)
    decider = RetryDecider(Group(), Mailbox(tmp_path), max_failures=0)
    late = ControllerError(pickle.loads(pickle.dumps(WorkerGroupStartupTimeoutError(4))))
    assert all(decider.decide(late) for _ in range(600))
    assert "waiting for worker pods: those that have joined have room for 3 of 4 workers" in capsys.readouterr().out
    slots = 4
    tries = next(number for number in range(100) if not decider.decide(late))
    assert tries == classify_failure_module.UNEXPLAINED_LIMIT, "all nodes have joined, so something else is wrong"


def test_contract_ray_takes_the_policy_where_we_replace_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trainer = data_parallel_trainer.DataParallelTrainer
    source = inspect.getsource(trainer.fit)
    assert "self._initialize_and_run_controller(" in source and "failure_policy=create_failure_policy(" in source
    seen: dict[str, Any] = {}
    monkeypatch.setattr(trainer, "_initialize_and_run_controller", lambda self, **parts: seen.update(parts))
    controller_parts.replace_parts(partial(failure_policy.make_retries, default=None))
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    monkeypatch.setenv("RAILHEAD_RUN", "")
    RunContext("/runs/r").write()
    built = SimpleNamespace(
        run_config=SimpleNamespace(failure_config=FailureConfig()), scaling_config=None, datasets=None
    )
    trainer._initialize_and_run_controller(built, failure_policy=None, scaling_policy="Ray's")
    policy = seen["failure_policy"]
    assert isinstance(policy, FailurePolicy) and seen["scaling_policy"] == "Ray's"
    error = WorkerGroupError("text", {1: RAISED})
    assert policy.make_decision(training_failed_error=error) == FailureDecision.RAISE
    assert list(inspect.signature(FailurePolicy.make_decision).parameters) == ["self", "training_failed_error"]


def test_contract_the_hooks_of_our_callback_exist() -> None:
    for base, hook, parameters in (
        (ray_callback.ControllerCallback, "after_controller_state_update", ["previous_state", "current_state"]),
        (ray_callback.WorkerGroupCallback, "after_worker_group_start", ["worker_group"]),
        (ray_callback.ReportCallback, "after_report", ["training_report", "metrics"]),
    ):
        found = list(inspect.signature(getattr(base, hook)).parameters)
        assert found[1:] == parameters, f"{base.__name__}.{hook} has changed"
        assert issubclass(RailheadCallback, base)


def test_contract_the_checkpoint_manager_comes_before_our_callback() -> None:
    from ray.train.v2._internal.execution.controller.controller import TrainController

    source = inspect.getsource(TrainController.__init__)
    assert "[self._checkpoint_manager]" in source.partition("report_callbacks=")[2].partition("self._callbacks")[0]


def test_errors_survive_pickling() -> None:
    copy = pickle.loads(pickle.dumps(RAISED))
    assert (copy.kind, copy.rank, copy.text) == (RankErrorKind.RAISED, RAISED.rank, RAISED.text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('SystemExit: 42, after "ncclSystemError: no route" on standard error (m.py, line 3)', RankErrorKind.RAISED),
        ("SystemExit: ncclSystemError: no route (m.py, line 3)", RankErrorKind.NETWORK),
        ("RuntimeError: ncclSystemError: no route (m.py, line 3)", RankErrorKind.NETWORK),
    ],
)
def test_a_rank_that_exits_with_a_number_is_judged_by_it(text: str, kind: RankErrorKind) -> None:
    found = translate_rank_error(0, TrainingError(RankErrorKind.RAISED, 0, text, 42), Group())
    assert (found.kind, found.exit_code) == (kind, 42)
