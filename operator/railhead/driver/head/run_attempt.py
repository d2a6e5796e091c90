"""Runs one attempt's training as seen by the driver, from the start of Ray's head to the end of fit().

Runs in its own thread, so that the main thread can handle signals at once. While
Ray's head starts, this checks the storage and imports Ray.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Optional

from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import JobInput
from railhead.contract.outcome import Outcome
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.run_context import RunContext
from railhead.driver.container.user_code import choose_working_folder, list_user_folders
from railhead.driver.fit.acquire_run import acquire_run
from railhead.driver.fit.datasets import build_datasets
from railhead.driver.fit.ray_train_parts import prepare_ray_train
from railhead.driver.fit.train_func_trainer import build_trainer, require_package
from railhead.driver.fit.users_trainer import build_users_trainer
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.rank_stream import Ranks
from railhead.driver.head.ray_cluster import OnFatal, connect, wait_for_head, watch_nodes
from railhead.driver.head.script_process import Scripts, check_script, run_script
from railhead.driver.head.threads import start_thread
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.log import log
from railhead.driver.pod.ending import Ending, Success
from railhead.driver.ray.dashboard_process import run_dashboard
from railhead.driver.ray.runtime_env import prepare_runtime_env, upload_local_folders
from railhead.driver.ray.types import Trainer
from railhead.driver.storage.claims import read_success
from railhead.driver.storage.run_folder_files import open_own_folder
from railhead.driver.storage.storage_call import call_storage
from railhead.driver.storage.write_check import prepare_storage
from railhead.driver.train_controller.failures.classify_failure import explain_missing_success


@dataclass(frozen=True)
class TrainingContext:
    """The parts of the head that training needs.

    Attributes:
        on_fatal: receives a failure that fit() would not detect by itself.
        scripts: receives the process of a script.
    """

    pod: Pod
    job: JobInput
    publisher: Publisher
    mailbox: Mailbox
    on_fatal: OnFatal
    ranks: Ranks
    scripts: Scripts

    def watch(self) -> None:
        """Starts to watch the nodes, and what else needs Ray; call it once the driver has joined Ray."""
        start_thread(watch_nodes, self.pod, self.job, self.publisher, self.on_fatal)
        if self.job.has_dashboard:
            start_thread(run_dashboard, self.pod)


def run_training(attempt: TrainingContext) -> Ending:
    """Trains, and returns how that ended. Never raises."""
    try:
        if attempt.pod.attempt > 1 and _has_succeeded_before(attempt):
            return Success("an earlier attempt had finished training before its head was lost")
        _prepare(attempt)
        if attempt.job.entrypoint:
            return _run_script(attempt)
        return _run_trainer(attempt)
    except AttemptFailed as error:
        return error.failure
    except BaseException as error:
        # The user's code runs in here too, and the main thread would wait forever for an ending of a dead thread.
        return Failure(FailureClass.INFRASTRUCTURE, "DriverFailed", describe_exception(error))


def _has_succeeded_before(attempt: TrainingContext) -> bool:
    """Tells whether the run's folder records a success of an earlier attempt.

    If so, reports the progress recorded there, as this attempt's controller would.
    """
    pod = attempt.pod
    job = attempt.job
    path = attempt.job.storage_path

    def read() -> Optional[Outcome]:
        folder = open_own_folder(path, job.run_name)
        return read_success(folder, uid=job.uid, attempt=pod.attempt, former_uids=job.former_uids)

    last = call_storage(path, read, is_known=pod.checkpoint_index >= 0, warn=attempt.publisher.warn)
    if last is None:
        return False
    progress = Progress(
        reports=last.reports,
        metrics=last.metrics,
        checkpoint=last.checkpoint,
        best_checkpoint=last.best_checkpoint,
        run_uri=build_checkpoint_uri(path, job.run_name),
    )
    attempt.mailbox.controller.change(partial(replace, progress=progress))
    return True


def _prepare(attempt: TrainingContext) -> None:
    """Checks the image, the script and the storage before Ray is up. Raises AttemptFailed for what cannot be used."""
    job = attempt.job
    if job.train_func:
        require_package(job)
    if job.entrypoint:
        check_script(job)
    is_known = attempt.pod.checkpoint_index >= 0
    run_uri = prepare_storage(
        attempt.job.storage_path, run_name=job.run_name, is_known=is_known, warn=attempt.publisher.warn
    )
    attempt.publisher.update(partial(replace, run_uri=run_uri))


def _run_trainer(attempt: TrainingContext) -> Ending:
    """Calls fit() in this process, for trainFunc and build."""
    pod = attempt.pod
    prepare_ray_train(pod, attempt.job)
    runtime_env = prepare_runtime_env(attempt.job.runtime_env, folders=list_user_folders(), bundle=pod.bundle)
    attempt = replace(attempt, job=replace(attempt.job, runtime_env=runtime_env))
    job = attempt.job
    if job.build or job.datasets:
        _join(attempt)
        # For files that the user's code opens. Only now, since Ray records the folder in which the driver joins.
        os.chdir(choose_working_folder())
        trainer = _make_trainer(attempt, build_datasets(job))
    else:
        # The trainer comes first, to report every problem before Ray is up.
        trainer = _make_trainer(attempt, {})
        _join(attempt)
    return _fit(trainer, attempt.mailbox)


def _join(attempt: TrainingContext) -> None:
    log("Ray Train is imported")
    connect(attempt.pod)
    # Changes the runtime_env in place: the trainer has this very object.
    upload_local_folders(attempt.job.runtime_env, scratch=str(attempt.pod.temp))
    attempt.watch()


def _run_script(attempt: TrainingContext) -> Ending:
    """Runs the script, which calls fit() in its own process; this one joins Ray only to count the nodes."""
    wait_for_head(attempt.pod)

    def join_and_watch() -> None:
        try:
            connect(attempt.pod, shows_ranks=False)
        except Exception as error:
            # If Ray is in trouble, the script finds out too.
            log(f"cannot count the worker pods: {describe_exception(error)}")
        else:
            attempt.watch()

    start_thread(join_and_watch)
    return run_script(attempt.job, attempt.pod, attempt.mailbox, attempt.ranks, attempt.scripts)


def _make_trainer(attempt: TrainingContext, datasets: dict[str, object]) -> Trainer:
    """Returns the trainer, ready for fit(), with the run claimed for this attempt."""
    job = attempt.job
    storage_path = attempt.job.storage_path
    if job.build:
        trainer, run = build_users_trainer(job, storage_path=storage_path, datasets=datasets)
    else:
        trainer = build_trainer(job, storage_path=storage_path, datasets=datasets)
        run = RunContext(build_checkpoint_uri(storage_path, job.run_name))
    if not trainer.running_in_local_mode:
        acquire_run(trainer.run_config, run, pod=attempt.pod, job=job, warn=attempt.publisher.warn)
    return trainer


def _fit(trainer: Trainer, mailbox: Mailbox) -> Ending:
    try:
        trainer.fit()
    except Exception as error:
        from railhead.driver.train_controller.failures.ray_exceptions import build_failure

        # The failure policy knew the nodes and the pods; the exception has only what Ray made of it.
        return mailbox.controller.read().failure or build_failure(error)
    # Without workers the function ran in this process, and has returned.
    if trainer.running_in_local_mode or mailbox.controller.read().has_returned:
        return Success()
    return explain_missing_success()
