"""What we offer a user-built trainer for its RunConfig, and what it made of the offer.

A new attempt resumes from the last checkpoint if the run has the same name and storage
path as in the previous attempt. The user's code may choose others; then the job warns.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from railhead.contract.job_input import JobInput
from railhead.contract.report import RunWarning
from railhead.driver.describe import log, strip_credentials
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
        """For an elastic job, with the maximum number of workers."""
        return RunSettings(job.run_name, storage_path, job.most_workers)

    def to_environment(self) -> dict[str, str]:
        return {RUN_NAME: self.run_name, STORAGE_PATH: self.storage_path, NUM_WORKERS: str(self.num_workers)}

    def name_run(self, number: int) -> str:
        """The run of a script's fit() of this number, from 1."""
        return self.run_name if number == 1 else f"{self.run_name}-fit-{number}"

    def owns(self, name: str) -> bool:
        """Whether `name_run` gives this name."""
        return re.fullmatch(re.escape(self.run_name) + r"(-fit-\d+)?", name) is not None

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> RunSettings:
        return RunSettings(environment[RUN_NAME], environment[STORAGE_PATH], int(environment[NUM_WORKERS]))


def find_warning(offer: RunSettings, *, name: str, storage_path: str) -> Optional[RunWarning]:
    """A warning if the run is not the job's."""
    if not offer.owns(name):
        what = f'RunConfig has the name "{name}", but the job\'s run is "{offer.run_name}"'
        return _warn("RunNameDiffers", what, f'RunConfig(name=os.environ["{RUN_NAME}"])')
    if storage_path.rstrip("/") != offer.storage_path.rstrip("/"):
        what = f'RunConfig has the storage_path "{storage_path}", but the job\'s is "{offer.storage_path}"'
        return _warn("StoragePathDiffers", what, f'RunConfig(storage_path=os.environ["{STORAGE_PATH}"])')
    return None


def _warn(reason: str, what: str, remedy: str) -> RunWarning:
    message = f"{what}: a new attempt may not find the checkpoints of the previous one; use {remedy}"
    return RunWarning(reason, message)


def find_run(offer: RunSettings, run_config: Any, *, offered_path: str) -> RunContext:
    """Where the RunConfig puts its checkpoints, with a warning when that is not the job's location.

    `offered_path`: the storage path of the offered RunConfig, as normalized by Ray.
    """
    is_ours = run_config.storage_path == offered_path
    path = offer.storage_path if is_ours else strip_credentials(os.path.expanduser(run_config.storage_path))
    warning = find_warning(offer, name=run_config.name, storage_path=path)
    if warning:
        log(warning.message)
    run_uri = build_checkpoint_uri(path, run_config.name)
    is_own = run_uri == build_checkpoint_uri(offer.storage_path, offer.run_name)
    return RunContext(run_uri, warning=warning, is_own=is_own)
