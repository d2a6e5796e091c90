"""The job's run, and the run of one fit(), as values that travel in environment variables.

That of a fit() is written once, right before it, and read by the callbacks that Ray creates in this process.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from typing import Mapping, Optional

from railhead.contract.job_input import JobInput
from railhead.contract.report import RunWarning

RUN_NAME = "RAILHEAD_RUN_NAME"
STORAGE_PATH = "RAILHEAD_STORAGE_PATH"
NUM_WORKERS = "RAILHEAD_NUM_WORKERS"
_FIT = "RAILHEAD_RUN"  # JSON; Ray creates callbacks without arguments


@dataclass(frozen=True)
class RunSettings:
    """The job's run, the same in each attempt, as a script's environment has it."""

    run_name: str
    storage_path: str
    num_workers: int

    @staticmethod
    def from_job(job: JobInput, *, storage_path: str) -> RunSettings:
        """Returns the run, with the maximum number of workers for an elastic job."""
        return RunSettings(job.run_name, storage_path, job.most_workers)

    def to_environment(self) -> dict[str, str]:
        return {RUN_NAME: self.run_name, STORAGE_PATH: self.storage_path, NUM_WORKERS: str(self.num_workers)}

    def name_run(self, number: int) -> str:
        """Returns the name of the run of a script's fit() of this number, from 1."""
        return self.run_name if number == 1 else f"{self.run_name}-fit-{number}"

    def owns(self, name: str) -> bool:
        """Whether `name_run` gives this name."""
        return re.fullmatch(re.escape(self.run_name) + r"(-fit-\d+)?", name) is not None

    @staticmethod
    def from_environment(variables: Mapping[str, str]) -> RunSettings:
        return RunSettings(variables[RUN_NAME], variables[STORAGE_PATH], int(variables[NUM_WORKERS]))


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
