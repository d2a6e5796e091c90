"""Checks a trainer that the user's own code built, just before fit(), and prepares it for a TrainJob.

Handles a trainer that the function of `trainer.build` returned, in the driver, and one whose fit() a script calls. The
former is called once Ray is up, so that it can prepare its data with Ray Data. If it fails, the message has the user's
own error, and there is no retry: it would fail the same way.

A new attempt resumes from the last checkpoint if the run has the same name and storage path as in the previous attempt.
The name may be the job's or one of the user's code. A name in the code is the same in every job that runs it, so such a
run is in a folder of the job's own: no job reads, continues or deletes what another one has saved.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import Callable, Mapping, Optional

from railhead.contract import environment
from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.job_input import JobInput
from railhead.contract.report import RunWarning
from railhead.contract.run_folder import is_of_job
from railhead.driver.container.run_context import STORAGE_PATH, RunContext
from railhead.driver.container.user_code import load_function
from railhead.driver.fit.train_func_trainer import build_configs
from railhead.driver.fit.worker_room import explain_missing_room
from railhead.driver.mailbox.progress import is_known_outside
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.exit_words import note_exit_words
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import strip_credentials
from railhead.driver.rank.run_rank import mark_loop
from railhead.driver.ray.types import RunConfig, Trainer

NOT_USABLE = "EntrypointNotUsable"
_READY = "_railhead_is_ready"
# The path of a RunConfig before its run was put into the job's own folder.
_GIVEN_PATH = "_railhead_given_path"


def build_users_trainer(
    job: JobInput, *, storage_path: str, datasets: Mapping[str, object]
) -> tuple[Trainer, RunContext]:
    """Returns the trainer, ready for fit(), and its run, not claimed yet; `datasets` are Ray Data's.

    Raises JobRefused with the field's name, and RayError when the failure is not in the user's code.
    """
    scaling_config, run_config = build_configs(job, storage_path=storage_path)
    arguments = {
        "scaling_config": scaling_config,
        "run_config": run_config,
        "train_loop_config": dict(job.train_loop_config),
        "datasets": datasets,
    }
    who = f"trainer.build {job.build}"
    trainer = call_build(_load(job.build, who), arguments, who=who)
    run = make_ready(trainer, who=who, job=job, storage_path=storage_path, job_path=run_config.storage_path)
    return trainer, run


def _load(reference: str, who: str) -> Callable[..., object]:
    try:
        with note_exit_words():
            return load_function(reference)
    except (Exception, SystemExit) as error:
        raise JobRefused(NOT_USABLE, f"{who}: {describe_exception(error)}") from error


def call_build(function: Callable[..., object], arguments: Mapping[str, object], *, who: str) -> Trainer:
    """Returns the trainer that the function returns. Raises JobRefused when it returns anything else."""
    from ray.exceptions import RayError, RayTaskError
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        problem = f"Railhead calls it with the keyword arguments {', '.join(arguments)}: {error}"
        raise JobRefused(NOT_USABLE, f"{who}: {problem}") from error
    except ValueError:
        # A function without a signature: the call itself will show.
        pass
    try:
        with note_exit_words():
            trainer = function(**arguments)
    except BaseException as error:
        # Not the user's error, but a lost node, for example.
        if isinstance(error, RayError) and not isinstance(error, RayTaskError):
            raise
        raise JobRefused("BuildRaised", f"{who}: {describe_exception(error)}") from error
    if not isinstance(trainer, DataParallelTrainer):
        what = "None"
        if trainer is not None:
            kind = type(trainer)
            what = f"a {kind.__module__}.{kind.__qualname__}"
        raise JobRefused(NOT_USABLE, f"{who}: it returned {what}; it must return one of Ray Train's trainers")
    built: Trainer = trainer
    return built


def make_ready(
    trainer: Trainer, *, who: str, job: JobInput, storage_path: str, job_path: str, fit: int = 1
) -> RunContext:
    """Changes the trainer in place, idempotently; returns its run, not claimed yet. Raises JobRefused.

    `who` begins the message; `job_path`: the storage path in the RunConfig that was offered; `fit`: the number of the
    fit() in a script, of which the first one begins from spec.resumeFrom, whatever its run is called.
    """
    from railhead.driver.fit.user_callbacks import add_callbacks

    add_callbacks(trainer.run_config, job.callbacks)
    run = replace(place_run(trainer.run_config, job.run_name, storage_path, job_path=job_path), fit=fit)
    resume_from = ""
    if fit == 1:
        resume_from = os.environ.get(environment.RESUME_FROM, "")
    problem = explain_missing_room(trainer.scaling_config, pods=job.worker_pods, pod=job.ray_node.worker)
    if problem:
        raise JobRefused("TrainerNotUsable", f"{who}: {problem}")
    # Without workers the function runs in this very process, which has no rank.
    if not getattr(trainer, _READY, False) and not trainer.running_in_local_mode:
        try:
            trainer.train_loop_per_worker = mark_loop(trainer.train_loop_per_worker, resume_from=resume_from)
        except (TypeError, ValueError) as error:
            raise JobRefused("TrainerNotUsable", f"{who}: train_loop_per_worker: {error}") from error
        setattr(trainer, _READY, True)
    return run


def place_run(run_config: RunConfig, run_name: str, storage_path: str, *, job_path: str) -> RunContext:
    """Puts a run that the user's code has named into the job's own folder; returns where the run keeps its checkpoints.

    `run_name`, `storage_path`: the job's; `job_path`: that path in the offered RunConfig, as normalized by Ray.
    """
    given: str = getattr(run_config, _GIVEN_PATH, run_config.storage_path)
    if given == job_path:
        path = storage_path
    else:
        path = strip_credentials(os.path.expanduser(given))
    warning = find_warning(path, storage_path=storage_path)
    if warning:
        log(warning.message)
    name = run_config.name
    is_named = not is_of_job(name, run_name)
    is_outside = is_named and is_known_outside(_read_known(), run=name, folder=run_name)
    if is_named and not is_outside:
        # The same RunConfig may be used again, and its run must not move one folder deeper each time.
        setattr(run_config, _GIVEN_PATH, given)
        run_config.storage_path = build_checkpoint_uri(given, run_name)
        path = build_checkpoint_uri(path, run_name)
    run_uri = build_checkpoint_uri(path, name)
    is_own = run_uri == build_checkpoint_uri(storage_path, run_name)
    leads_out = name.startswith("/") or ".." in name.split("/")
    is_inside = not (is_outside or leads_out)
    return RunContext(run_uri, warning=warning, is_own=is_own, is_named=is_named, is_inside=is_inside)


def _read_known() -> str:
    return os.environ.get(environment.KNOWN_CHECKPOINTS, "")


def find_warning(path: str, *, storage_path: str) -> Optional[RunWarning]:
    """Returns a warning if the user's code has chosen another storage path than the job's."""
    if path.rstrip("/") == storage_path.rstrip("/"):
        return None
    message = (
        f'RunConfig has the storage_path "{path}", but the job\'s is "{storage_path}": a new attempt may not find the '
        f'checkpoints of the previous one; use RunConfig(storage_path=os.environ["{STORAGE_PATH}"])'
    )
    return RunWarning("StoragePathDiffers", message)
