"""Watches fit() in the user's script: checks the trainer before it, and tells our driver how it ended, by the mailbox.

What the trainer's RunConfig leaves unset becomes the job's, so that the next attempt finds the run again; a run that
the script names is in the job's own folder.
"""

from __future__ import annotations

import functools
import os
import time
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Optional

from railhead.contract.report import RunWarning
from railhead.contract.run_folder import name_fit
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.run_context import STORAGE_PATH
from railhead.driver.fit.acquire_run import acquire_run
from railhead.driver.mailbox.mailbox import Mailbox, open_mailbox
from railhead.driver.mailbox.values import Fit
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.ray.types import RunConfig, Trainer
from railhead.driver.train_controller.failures.classify_failure import explain_missing_success

# For our driver to read the ranks' last lines, for which it waits less than that.
READ_SECONDS = 8.0
LOOK_SECONDS = 0.05
_IS_UNNAMED = "_railhead_is_unnamed"


def watch_trainers(module: Any) -> None:
    """Patches fit() of all trainers, and installs our parts in Ray Train. Raises JobRefused.

    `module`: ray.train.v2.api.data_parallel_trainer, whose trainer is the base class of all.
    """
    from railhead.driver.ray.controller_parts import replace_parts
    from railhead.driver.ray.hooks import check_hooks
    from railhead.driver.train_controller.failures.failure_policy import make_retries

    try:
        check_hooks()
        # Without a default of the job's: a group restarts as often as the script itself says.
        replace_parts(partial(make_retries, default=0))
    except AttemptFailed as error:
        _write(open_mailbox(), Fit(0, has_ended=True, failure=error.failure))
        raise
    original = module.DataParallelTrainer.fit

    @functools.wraps(original)
    def fit(self: Trainer) -> object:
        return watch_fit(self, original)

    module.DataParallelTrainer.fit = fit


def watch_fit(trainer: Trainer, fit: Callable[[Trainer], object]) -> object:
    """Calls fit() for a run that this attempt has acquired, and writes how it ended into the mailbox.

    Raises what fit() raises; JobRefused instead of waiting forever; or AttemptFailed if the run is another's.
    """
    from railhead.driver.fit.users_trainer import make_ready
    from railhead.driver.train_controller.failures.ray_exceptions import build_failure

    mailbox = open_mailbox()
    before = mailbox.script.read().fit
    number = before.number + 1 if before else 1
    controller = open_mailbox(fit=number).controller
    _write(mailbox, Fit(number))
    try:
        pod = Pod.from_environment(os.environ)
        job = pod.read_job()
        path = job.storage_path
        name_run(trainer.run_config, job.run_name, number=number)
        run = make_ready(trainer, who="trainer.entrypoint", job=job, storage_path=path, job_path=path, fit=number)
        if not trainer.running_in_local_mode:
            acquire_run(trainer.run_config, run, pod=pod, job=job, warn=partial(_warn, mailbox))
        result = fit(trainer)
        if not (trainer.running_in_local_mode or controller.read().has_returned):
            raise AttemptFailed(explain_missing_success())
    except Exception as error:
        # The controller knows more of a failure than the exception that Ray makes of it.
        failure = error.failure if isinstance(error, AttemptFailed) else controller.read().failure
        _end_fit(mailbox, Fit(number, has_ended=True, failure=failure or build_failure(error)))
        raise
    _end_fit(mailbox, Fit(number, has_ended=True))
    return result


def _write(mailbox: Mailbox, fit: Fit) -> None:
    mailbox.script.change(partial(replace, fit=fit))


def _warn(mailbox: Mailbox, warning: Optional[RunWarning]) -> None:
    mailbox.script.change(partial(replace, warning=warning))


def _end_fit(mailbox: Mailbox, fit: Fit) -> None:
    """Writes how the fit() ended, and waits until our driver has read the ranks' last lines.

    They pass through this process, which must not exit before they do.
    """
    _write(mailbox, fit)
    deadline = time.monotonic() + READ_SECONDS
    while mailbox.driver.read().read_fits < fit.number and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def complete_run_configs(module: Any) -> None:
    """Gives each new RunConfig without a storage path the job's. `module`: ray.train.v2.api.config.

    One with a `storage_filesystem` keeps Ray's default path, which is a path of that filesystem.
    """
    original = module.RunConfig.__post_init__

    @functools.wraps(original)
    def __post_init__(self: RunConfig) -> None:
        setattr(self, _IS_UNNAMED, not self.name)
        if self.storage_path is None and self.storage_filesystem is None:
            self.storage_path = os.environ[STORAGE_PATH]
        original(self)

    module.RunConfig.__post_init__ = __post_init__


def name_run(run_config: RunConfig, run_name: str, *, number: int) -> None:
    """Names the run of the script's fit() of this number; a RunConfig that is used again keeps its run, as in Ray."""
    if getattr(run_config, _IS_UNNAMED, False):
        run_config.name = name_fit(run_name, number)
        setattr(run_config, _IS_UNNAMED, False)
