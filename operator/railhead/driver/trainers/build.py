"""`trainer.build`: the user's function makes the trainer, in the driver.

Called once Ray is there, so that it can prepare its data with Ray Data. What goes wrong in
it is said in the user's words, and never tried again: the next try would end the same way.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

from railhead.contract.job_input import JobInput
from railhead.driver.describe import describe_exception
from railhead.driver.trainers.configs import build_configs, plan_configs
from railhead.driver.trainers.offer import Offer
from railhead.driver.trainers.users import TrainerRefused, make_ready
from railhead.driver.user_code.load import load_function

NOT_USABLE = "EntrypointNotUsable"


def build_users_trainer(job: JobInput, *, storage_path: str, datasets: dict[str, Any]) -> Any:
    """One of Ray Train's trainers, ready for fit(); `datasets` are Ray Data's.

    Raises TrainerRefused with the field's name, and RayError when it is not the user's code that failed.
    """
    try:
        scaling_config, run_config = build_configs(plan_configs(job, storage_path=storage_path))
    except (ValueError, TypeError) as error:
        raise TrainerRefused("ConfigurationRefused", f"Ray Train refuses the configuration: {error}") from error
    arguments = {
        "scaling_config": scaling_config,
        "run_config": run_config,
        "train_loop_config": dict(job.train_loop_config),
        "datasets": datasets,
    }
    offer = Offer.from_job(job, storage_path=storage_path)
    try:
        trainer = call_build(_load(job.build), arguments)
        make_ready(trainer, job=job, offer=offer, offered_path=run_config.storage_path)
    except TrainerRefused as error:
        raise TrainerRefused(error.reason, error.describe(f"trainer.build {job.build}")) from error
    return trainer


def _load(reference: str) -> Callable[..., Any]:
    try:
        return load_function(reference)
    except (Exception, SystemExit) as error:
        raise TrainerRefused(NOT_USABLE, describe_exception(error)) from error


def call_build(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What the function returns, when that is a trainer. Raises TrainerRefused."""
    from ray.exceptions import RayError, RayTaskError
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise TrainerRefused(NOT_USABLE, f"it is called with {', '.join(arguments)}, by name: {error}") from error
    except ValueError:  # a function without a signature: the call itself will tell
        pass
    try:
        trainer = function(**arguments)
    except (Exception, SystemExit) as error:
        if isinstance(error, RayError) and not isinstance(error, RayTaskError):
            raise  # a lost node, for example
        raise TrainerRefused("BuildRaised", describe_exception(error)) from error
    if not isinstance(trainer, DataParallelTrainer):
        kind = type(trainer)
        what = "None" if trainer is None else f"a {kind.__module__}.{kind.__qualname__}"
        raise TrainerRefused(NOT_USABLE, f"it returned {what}, and must return one of Ray Train's trainers")
    return trainer
