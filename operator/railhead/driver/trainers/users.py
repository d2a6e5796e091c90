"""A trainer that the user's own code made, just before fit(): looked at, and made ready for a TrainJob.

The same for a trainer that `trainer.build` returned and for one whose fit() a script calls.
"""

from __future__ import annotations

import os
from typing import Any

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.errors import CallbackRefused
from railhead.driver.trainers.loop import mark_loop
from railhead.driver.trainers.offer import Offer, announce_run
from railhead.driver.trainers.satisfiable import explain_unsatisfiable, read_scaling_config

CALLBACK_REFUSED = "CallbackRefused"
_READY = "_railhead_is_ready"


class TrainerRefused(Exception):
    """The job cannot run this trainer; another try would end the same way.

    Attributes:
        reason: CamelCase word for the status.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def describe(self, who: str) -> str:
        """With the field `who`, unless it is another field's fault."""
        return str(self) if self.reason == CALLBACK_REFUSED else f"{who}: {self}"


def make_ready(trainer: Any, *, job: JobInput, offer: Offer, offered_path: str) -> None:
    """Changes the trainer in place; a second time it changes nothing. Raises TrainerRefused.

    `offered_path`: the storage path as it stands in the RunConfig that was offered.
    """
    wanted = read_scaling_config(trainer.scaling_config)
    problem = explain_unsatisfiable(wanted, pods=job.worker_pods, node=job.ray_node.get("worker") or {})
    if problem:
        raise TrainerRefused("ScalingNotSatisfiable", problem)
    from railhead.driver.trainers.callbacks import add_callbacks

    try:
        add_callbacks(trainer.run_config, job.callbacks)
    except CallbackRefused as error:
        raise TrainerRefused(CALLBACK_REFUSED, str(error)) from error
    warning = announce_run(offer, trainer.run_config, offered_path=offered_path)
    initial = "" if warning else os.environ.get(e.RESUME_FROM, "")  # for the job's own run only
    # Without workers the function runs in this very process, which has no rank.
    if not getattr(trainer, _READY, False) and not trainer.running_in_local_mode:
        try:
            trainer.train_loop_per_worker = mark_loop(trainer.train_loop_per_worker, initial=initial)
        except (TypeError, ValueError) as error:
            raise TrainerRefused("TrainerNotUsable", f"train_loop_per_worker: {error}") from error
        setattr(trainer, _READY, True)
