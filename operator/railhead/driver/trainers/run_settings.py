"""What a trainer of the user's own is offered for its RunConfig, and what it made of it.

A new attempt goes on from the last checkpoint when the run has the name and the storage
path of the attempt before. The user's code may choose others; then the job says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from railhead.contract.job_input import JobInput
from railhead.contract.report import RunWarning
from railhead.driver.reporting.progress import build_checkpoint_uri
from railhead.driver.run_context import RunContext

RUN_NAME = "RAILHEAD_RUN_NAME"
STORAGE_PATH = "RAILHEAD_STORAGE_PATH"
NUM_WORKERS = "RAILHEAD_NUM_WORKERS"


@dataclass(frozen=True)
class RunSettings:
    """The job's run: the same in each attempt."""

    run_name: str
    storage_path: str
    num_workers: int

    @staticmethod
    def from_job(job: JobInput, *, storage_path: str) -> RunSettings:
        """For an elastic job the greatest number of workers."""
        return RunSettings(job.run_name, storage_path, job.most_workers)

    def to_environment(self) -> dict[str, str]:
        return {RUN_NAME: self.run_name, STORAGE_PATH: self.storage_path, NUM_WORKERS: str(self.num_workers)}

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> RunSettings:
        return RunSettings(environment[RUN_NAME], environment[STORAGE_PATH], int(environment[NUM_WORKERS]))


def find_warning(offer: RunSettings, *, name: str, storage_path: str) -> Optional[RunWarning]:
    """When the run is another one than the job's."""
    if name != offer.run_name:
        what = f'RunConfig has the name "{name}", and the job\'s run is "{offer.run_name}"'
        return _warn("RunNameDiffers", what, f'RunConfig(name=os.environ["{RUN_NAME}"])')
    if storage_path.rstrip("/") != offer.storage_path.rstrip("/"):
        what = f'RunConfig has the storage_path "{storage_path}", and the job\'s is "{offer.storage_path}"'
        return _warn("StoragePathDiffers", what, f'RunConfig(storage_path=os.environ["{STORAGE_PATH}"])')
    return None


def _warn(reason: str, what: str, remedy: str) -> RunWarning:
    message = f"{what}: a new attempt may not find the checkpoints of the one before; use {remedy}"
    return RunWarning(reason, message)


def find_run(offer: RunSettings, run_config: Any, *, offered_path: str) -> RunContext:
    """Where the RunConfig puts its checkpoints, with a warning when that is another place than the job's.

    `offered_path`: the storage path of the offered RunConfig, as Ray takes it.
    """
    is_ours = run_config.storage_path == offered_path
    path = offer.storage_path if is_ours else os.path.expanduser(run_config.storage_path)
    warning = find_warning(offer, name=run_config.name, storage_path=path)
    if warning:
        print(f"railhead: {warning.message}", flush=True)
    return RunContext(build_checkpoint_uri(path, run_config.name), warning=warning)
