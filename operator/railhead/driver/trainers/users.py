"""Checks a trainer that the user's own code built, just before fit(), and prepares it for a TrainJob.

Handles a trainer that `trainer.build` returned and one whose fit() a script calls alike.
"""

from __future__ import annotations

import os
from typing import Any

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.errors import JobRefused
from railhead.driver.rank.loop import mark_loop
from railhead.driver.run_context import RunContext
from railhead.driver.trainers.run_settings import RunSettings, find_run

_READY = "_railhead_is_ready"


def make_ready(trainer: Any, *, who: str, job: JobInput, offer: RunSettings, offered_path: str) -> RunContext:
    """Changes the trainer in place, idempotently; returns its run, not claimed yet. Raises JobRefused.

    `who` begins the message; `offered_path`: the storage path in the RunConfig that was offered.
    """
    from railhead.driver.trainers.callbacks import add_callbacks

    add_callbacks(trainer.run_config, job.callbacks)
    run = find_run(offer, trainer.run_config, offered_path=offered_path)
    initial = os.environ.get(e.RESUME_FROM, "") if run.is_own else ""
    # Without workers the function runs in this very process, which has no rank.
    if not getattr(trainer, _READY, False) and not trainer.running_in_local_mode:
        try:
            trainer.train_loop_per_worker = mark_loop(trainer.train_loop_per_worker, initial=initial)
        except (TypeError, ValueError) as error:
            raise JobRefused("TrainerNotUsable", f"{who}: train_loop_per_worker: {error}") from error
        setattr(trainer, _READY, True)
    return run
