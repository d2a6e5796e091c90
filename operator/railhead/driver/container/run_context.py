"""The run of one fit(): its name, and what travels to its callbacks in an environment variable.

That is written once, right before fit(), and read by the callbacks that Ray creates in this process.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Optional

from railhead.contract.report import RunWarning

# In a script's environment: the job's own run, and the maximum number of workers for an elastic job.
RUN_NAME = "RAILHEAD_RUN_NAME"
STORAGE_PATH = "RAILHEAD_STORAGE_PATH"
NUM_WORKERS = "RAILHEAD_NUM_WORKERS"
_FIT = "RAILHEAD_RUN"  # JSON; Ray creates callbacks without arguments


@dataclass(frozen=True)
class RunContext:
    """The run of one fit().

    Attributes:
        run_uri: where the run keeps its checkpoints.
        claim: this attempt's, as in `storage.claims`; empty = not claimed.
        run_id: by which trackers know it (`contract.trackers`); empty = not claimed.
        resumed_from: URI of the checkpoint that this fit() starts from, empty = none.
        warning: what the user should change, or None.
        is_own: it is the job's first one: it has the job's run.name and run.storagePath.
        is_named: the user's code has given it a name.
        is_inside: it is the job's own, of one of its fit(), or in its folder; not where a name such as `../x` leads.
        fit: number of the fit() in a script, from 1.
    """

    run_uri: str
    claim: str = ""
    run_id: str = ""
    resumed_from: str = ""
    warning: Optional[RunWarning] = None
    is_own: bool = True
    is_named: bool = False
    is_inside: bool = True
    fit: int = 1

    def write(self) -> None:
        os.environ[_FIT] = json.dumps(asdict(self))

    @staticmethod
    def read() -> RunContext:
        values = json.loads(os.environ[_FIT])
        warning = values.pop("warning")
        return RunContext(**values, warning=RunWarning(**warning) if warning else None)
