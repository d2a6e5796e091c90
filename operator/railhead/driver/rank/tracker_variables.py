"""Sets the variables by which a tracker continues its run over all attempts, without a line of the user's code."""

from __future__ import annotations

from typing import MutableMapping

from railhead.contract.trackers import RUN_ID

_ID = "WANDB_RUN_ID"
_RESUME = "WANDB_RESUME"
_NAME = "WANDB_NAME"
_SWEEP = "WANDB_SWEEP_ID"
_ALLOW = "allow"  # continues a run with this id if there is one, and begins it otherwise


def set_tracker_variables(variables: MutableMapping[str, str], rank: int) -> None:
    """Sets those of Weights & Biases, unless the job has its own; what `wandb.init` is passed goes before them.

    W&B has one writer per run. So each rank but the first has a run of its own, if the user's code starts one there.
    """
    run_id = variables.get(RUN_ID, "")
    if not run_id or _ID in variables or _SWEEP in variables or variables.get(_RESUME, _ALLOW) != _ALLOW:
        return
    if rank != 0:
        run_id = f"{run_id}-rank{rank}"
    variables[_ID] = run_id
    variables[_RESUME] = _ALLOW
    variables.setdefault(_NAME, run_id)
