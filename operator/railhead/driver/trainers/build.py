"""`trainer.build`: the user's function builds the trainer, in the driver.

Called once Ray is up, so that it can prepare its data with Ray Data. If it fails, the message
has the user's own error, and there is no retry: it would fail the same way.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

from railhead.contract.job_input import JobInput
from railhead.driver.describe import describe_exception
from railhead.driver.errors import JobRefused
from railhead.driver.run_context import RunContext
from railhead.driver.trainers.configs import build_configs, plan_configs, refuse_configuration
from railhead.driver.trainers.run_settings import RunSettings
from railhead.driver.trainers.trainer import Trainer
from railhead.driver.trainers.users import make_ready
from railhead.driver.user_code import load_function

NOT_USABLE = "EntrypointNotUsable"


def build_users_trainer(job: JobInput, *, storage_path: str, datasets: dict[str, Any]) -> tuple[Trainer, RunContext]:
    """The trainer, ready for fit(), and its run, not claimed yet; `datasets` are Ray Data's.

    Raises JobRefused with the field's name, and RayError when the failure is not in the user's code.
    """
    with refuse_configuration():
        scaling_config, run_config = build_configs(plan_configs(job, storage_path=storage_path))
    arguments = {
        "scaling_config": scaling_config,
        "run_config": run_config,
        "train_loop_config": dict(job.train_loop_config),
        "datasets": datasets,
    }
    who = f"trainer.build {job.build}"
    offer = RunSettings.from_job(job, storage_path=storage_path)
    trainer = call_build(_load(job.build, who), arguments, who=who)
    run = make_ready(trainer, who=who, job=job, offer=offer, offered_path=run_config.storage_path)
    return trainer, run


def _load(reference: str, who: str) -> Callable[..., Any]:
    try:
        return load_function(reference)
    except (Exception, SystemExit) as error:
        raise JobRefused(NOT_USABLE, f"{who}: {describe_exception(error)}") from error


def call_build(function: Callable[..., Any], arguments: dict[str, Any], *, who: str) -> Trainer:
    """The trainer that the function returns. Raises JobRefused when it returns anything else."""
    from ray.exceptions import RayError, RayTaskError
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        problem = f"Railhead calls it with the keyword arguments {', '.join(arguments)}: {error}"
        raise JobRefused(NOT_USABLE, f"{who}: {problem}") from error
    except ValueError:  # a function without a signature: the call itself will show
        pass
    try:
        trainer = function(**arguments)
    except BaseException as error:
        if isinstance(error, RayError) and not isinstance(error, RayTaskError):
            raise  # a lost node, for example
        raise JobRefused("BuildRaised", f"{who}: {describe_exception(error)}") from error
    if not isinstance(trainer, DataParallelTrainer):
        kind = type(trainer)
        what = "None" if trainer is None else f"a {kind.__module__}.{kind.__qualname__}"
        raise JobRefused(NOT_USABLE, f"{who}: it returned {what}; it must return one of Ray Train's trainers")
    built: Trainer = trainer
    return built
