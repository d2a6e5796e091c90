"""`trainer.trainFunc`: the trainer of its framework, with our stub as the function."""

from __future__ import annotations

import os
from typing import Any, Optional

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.trainers.configs import build_configs, plan_configs
from railhead.driver.trainers.datasets import build_data_config
from railhead.driver.trainers.frameworks import build_framework_trainer, plan_options
from railhead.driver.trainers.train_func import CONFIG, ENTRYPOINT, INITIAL, run_train_func
from railhead.driver.trainers.validation import build_validation_config


def build_trainer(job: JobInput, *, storage_path: str, datasets: Optional[dict[str, Any]] = None) -> Any:
    """One of Ray Train's trainers; `datasets` are Ray Data's.

    Raises FrameworkMissing when the image cannot run the framework, ValueError and TypeError for
    what Ray Train or the framework does not take, CallbackRefused for one of run.callbacks.
    """
    from railhead.driver.trainers.callbacks import add_callbacks

    options = plan_options(job.framework, job.backend, use_gpu=bool(job.scaling.get("useGPU")))
    scaling_config, run_config = build_configs(plan_configs(job, storage_path=storage_path))
    more: dict[str, Any] = {"datasets": datasets, "dataset_config": build_data_config(job)} if datasets else {}
    add_callbacks(run_config, job.callbacks)
    if job.validation_function:
        more["validation_config"] = build_validation_config(job.validation_function)
    return build_framework_trainer(
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
