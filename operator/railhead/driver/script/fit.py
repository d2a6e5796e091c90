"""fit() in the user's script: checks the trainer first, and writes the outcome to the spool for our driver."""

from __future__ import annotations

import functools
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable

from railhead.contract import environment
from railhead.driver.errors import AttemptFailed
from railhead.driver.pod import Pod
from railhead.driver.reporting.spool import FAILED, FINISHED, RUNNING, Fit, Spool
from railhead.driver.run_context import RunSettings
from railhead.driver.script.run_config import name_run
from railhead.driver.storage.acquire_run import acquire_run
from railhead.driver.train_controller.failure import miss_success

HEARD_SECONDS = 8.0  # our driver waits less than that


def watch_trainers(module: Any) -> None:
    """`module`: ray.train.v2.api.data_parallel_trainer, whose trainer is the base class of all. Raises JobRefused."""
    from railhead.driver.ray.controller import replace_parts
    from railhead.driver.ray.hooks import check_hooks
    from railhead.driver.train_controller.failure_policy import make_retries

    try:
        check_hooks()
        replace_parts(partial(make_retries, default=0))  # as often as the script itself says
    except AttemptFailed as error:
        Spool(Path(os.environ[environment.TEMP])).write_failure(error.failure)
        raise
    original = module.DataParallelTrainer.fit

    @functools.wraps(original)
    def fit(self: Any) -> Any:
        return watch_fit(self, original)

    module.DataParallelTrainer.fit = fit


def watch_fit(trainer: Any, fit: Callable[[Any], Any]) -> Any:
    """Raises what fit() raises; JobRefused instead of waiting forever; or AttemptFailed if the run is another's."""
    from railhead.driver.train_controller.failure_policy import build_failure
    from railhead.driver.trainers.users import make_ready

    spool = Spool(Path(os.environ[environment.TEMP]))
    before = spool.read_fit()
    number = before.number + 1 if before else 1
    spool.begin_fit(Fit(number, RUNNING))
    try:
        offer = RunSettings.from_environment(os.environ)
        pod = Pod.from_environment(os.environ)
        job = pod.read_job()
        name_run(trainer.run_config, offer, number=number)
        run = make_ready(trainer, who="trainer.entrypoint", job=job, offer=offer, offered_path=offer.storage_path)
        if not trainer.running_in_local_mode:
            acquire_run(trainer.run_config, run, pod=pod, job=job)
        result = fit(trainer)
        if not (trainer.running_in_local_mode or spool.have_all_returned()):
            raise AttemptFailed(miss_success())
    except AttemptFailed as error:
        spool.write_fit(Fit(number, FAILED, error.failure))
        _wait_until_heard(spool, number)
        raise
    except Exception as error:
        spool.write_fit(Fit(number, FAILED, spool.read_failure() or build_failure(error)))
        _wait_until_heard(spool, number)
        raise
    spool.write_fit(Fit(number, FINISHED))
    _wait_until_heard(spool, number)
    return result


def _wait_until_heard(spool: Spool, number: int) -> None:
    """The ranks' last lines pass through this process: it must not exit before they do."""
    deadline = time.monotonic() + HEARD_SECONDS
    while spool.read_heard() < number and time.monotonic() < deadline:
        time.sleep(0.05)
