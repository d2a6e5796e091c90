"""Installs our callbacks and policies in Ray Train, in the process that calls fit()."""

from __future__ import annotations

import os
from functools import partial

from railhead.contract.job_input import JobInput
from railhead.driver.container.pod_input import Pod
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.train_controller import CALLBACK

CALLBACKS = "RAY_TRAIN_CALLBACKS"


def prepare_ray_train(pod: Pod, job: JobInput) -> None:
    """Installs our callbacks and policies in Ray Train. Raises JobRefused."""
    try:
        from railhead.driver.ray.controller_parts import replace_parts
        from railhead.driver.ray.hooks import check_hooks
        from railhead.driver.train_controller.elastic import Bounds, make_sizes
        from railhead.driver.train_controller.failures.failure_policy import make_retries
    except ImportError as error:
        problem = f"spec.image: Ray Train cannot be imported: {error}"
        raise JobRefused("RayTrainNotUsable", problem) from error
    check_hooks(is_elastic=job.is_elastic)
    os.environ[CALLBACKS] = ",".join(filter(None, (CALLBACK, os.environ.get(CALLBACKS))))
    bounds = Bounds.from_job(job.scaling, worker_pods=pod.worker_pods)
    retries = partial(make_retries, default=job.max_failures)
    if bounds:
        replace_parts(retries, make_sizes=partial(make_sizes, bounds))
    else:
        replace_parts(retries)
