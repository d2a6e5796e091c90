"""The run of one fit(): its name, and what travels to its callbacks in an environment variable.

That is written once, right before fit(), and read by the callbacks that Ray creates in this process.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Optional

from railhead.contract.report import RunWarning

# In a script's environment: the job's own run, and the maximum number of workers for an elastic job.
RUN_NAME = "RAILHEAD_RUN_NAME"
STORAGE_PATH = "RAILHEAD_STORAGE_PATH"
NUM_WORKERS = "RAILHEAD_NUM_WORKERS"
_FIT = "RAILHEAD_RUN"  # JSON; Ray creates callbacks without arguments


def name_fit(run_name: str, number: int) -> str:
    """Returns the name of the run of a script's fit() of this number, from 1; `run_name` is the job's."""
    return run_name if number == 1 else f"{run_name}-fit-{number}"


def is_of_job(name: str, run_name: str) -> bool:
    """Whether `name_fit` gives this name."""
    return re.fullmatch(re.escape(run_name) + r"(-fit-\d+)?", name) is not None


@dataclass(frozen=True)
class RunContext:
    """The run of one fit().

    Attributes:
        run_uri: where the run keeps its checkpoints.
        claim: this attempt's, as in `storage.fence`; empty = not claimed.
        resumed_from: URI of the checkpoint that this fit() starts from, empty = none.
        warning: what the user should change, or None.
        is_own: it has the job's run.name and run.storagePath.
        fit: number of the fit() in a script, from 1.
    """

    run_uri: str
    claim: str = ""
    resumed_from: str = ""
    warning: Optional[RunWarning] = None
    is_own: bool = True
    fit: int = 1

    def write(self) -> None:
        os.environ[_FIT] = json.dumps(asdict(self))

    @staticmethod
    def read() -> RunContext:
        values = json.loads(os.environ[_FIT])
        warning = values.pop("warning")
        return RunContext(**values, warning=RunWarning(**warning) if warning else None)
