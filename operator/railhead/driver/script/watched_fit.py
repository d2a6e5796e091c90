"""fit() in the user's script: checks the trainer first, and tells our driver the outcome by the mailbox.

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
from railhead.driver.container.pod_input import Pod, find_storage_path
from railhead.driver.container.run_context import STORAGE_PATH
from railhead.driver.fit.acquire_run import acquire_run
from railhead.driver.mailbox.mailbox import Mailbox, open_mailbox
from railhead.driver.mailbox.values import Fit
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.ray.types import RunConfig, Trainer
from railhead.driver.train_controller.failures.classify_failure import explain_missing_success

READ_SECONDS = 8.0  # our driver waits less than that
_IS_UNNAMED = "_railhead_is_unnamed"


def watch_trainers(module: Any) -> None:
    """`module`: ray.train.v2.api.data_parallel_trainer, whose trainer is the base class of all. Raises JobRefused."""
    from railhead.driver.ray.controller_parts import replace_parts
    from railhead.driver.ray.hooks import check_hooks
    from railhead.driver.train_controller.failures.failure_policy import make_retries

    try:
        check_hooks()
        replace_parts(partial(make_retries, default=0))  # as often as the script itself says
    except AttemptFailed as error:
        _write(open_mailbox(), Fit(0, has_ended=True, failure=error.failure))
        raise
    original = module.DataParallelTrainer.fit

    @functools.wraps(original)
    def fit(self: Trainer) -> object:
        return watch_fit(self, original)

    module.DataParallelTrainer.fit = fit


def watch_fit(trainer: Trainer, fit: Callable[[Trainer], object]) -> object:
    """Raises what fit() raises; JobRefused instead of waiting forever; or AttemptFailed if the run is another's."""
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
        path = find_storage_path(pod, job)
        name_run(trainer.run_config, job.run_name, number=number)
        run = make_ready(trainer, who="trainer.entrypoint", job=job, storage_path=path, job_path=path, fit=number)
        if not trainer.running_in_local_mode:
            acquire_run(trainer.run_config, run, pod=pod, job=job, warn=partial(_warn, mailbox))
        result = fit(trainer)
        if not (trainer.running_in_local_mode or controller.read().has_returned):
            raise AttemptFailed(explain_missing_success())
    except Exception as error:
        found = controller.read().failure
        if isinstance(error, AttemptFailed):
            found = error.failure
        _end_fit(mailbox, Fit(number, has_ended=True, failure=found or build_failure(error)))
        raise
    _end_fit(mailbox, Fit(number, has_ended=True))
    return result


def _write(mailbox: Mailbox, fit: Fit) -> None:
    mailbox.script.change(partial(replace, fit=fit))


def _warn(mailbox: Mailbox, warning: Optional[RunWarning]) -> None:
    mailbox.script.change(partial(replace, warning=warning))


def _end_fit(mailbox: Mailbox, fit: Fit) -> None:
    """Waits until it is read: the ranks' last lines pass through this process, which must not exit before they do."""
    _write(mailbox, fit)
    deadline = time.monotonic() + READ_SECONDS
    while mailbox.driver.read().read_fits < fit.number and time.monotonic() < deadline:
        time.sleep(0.05)


def complete_run_configs(module: Any) -> None:
    """`module`: ray.train.v2.api.config. An own `storage_filesystem` keeps Ray's default path, which is its own too."""
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
