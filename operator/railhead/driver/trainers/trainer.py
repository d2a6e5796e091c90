"""`trainer.trainFunc`: the framework's trainer, with our stub as the function."""

from __future__ import annotations

import os
from typing import Any, Optional, Protocol

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.rank.train_func import CONFIG, ENTRYPOINT, INITIAL, run_train_func
from railhead.driver.trainers.configs import build_configs, plan_configs, refuse_configuration
from railhead.driver.trainers.datasets import build_data_config
from railhead.driver.trainers.frameworks import build_framework_trainer, plan_options
from railhead.driver.trainers.torch_on_ranks import leave_out_torch
from railhead.driver.trainers.validation import build_validation_config


class Trainer(Protocol):
    """What the driver uses of one of Ray Train's trainers."""

    run_config: Any
    running_in_local_mode: bool

    def fit(self) -> Any: ...


def build_trainer(job: JobInput, *, storage_path: str, datasets: Optional[dict[str, Any]] = None) -> Trainer:
    """`datasets` are Ray Data's. Raises JobRefused for an image that cannot run the framework or invalid values."""
    from railhead.driver.trainers.callbacks import add_callbacks

    with refuse_configuration():
        options = plan_options(job.framework, job.backend, use_gpu=bool(job.scaling.get("useGPU")))
        scaling_config, run_config = build_configs(plan_configs(job, storage_path=storage_path))
        more: dict[str, Any] = {"datasets": datasets, "dataset_config": build_data_config(job)} if datasets else {}
        add_callbacks(run_config, job.callbacks)
        if job.validation_function:
            more["validation_config"] = build_validation_config(job.validation_function)
        if job.framework == "Torch" and not runs_own_code_in_head(job):
            leave_out_torch()
        trainer: Trainer = build_framework_trainer(
            job.framework,
            run_train_func,
            options=options,
            train_loop_config={
                ENTRYPOINT: job.train_func,
                CONFIG: job.train_loop_config,
                INITIAL: os.environ.get(e.RESUME_FROM, ""),
            },
            scaling_config=scaling_config,
            run_config=run_config,
            **more,
        )
    return trainer


def runs_own_code_in_head(job: JobInput) -> bool:
    """Whether the driver or Ray Train's controller imports modules of the user's, which may use torch there."""
    return bool(job.callbacks or job.build or any(values.get("function") for values in job.datasets.values()))
