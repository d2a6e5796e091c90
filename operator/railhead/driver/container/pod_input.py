"""The input of a pod's entry point: its environment, and the job's input."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from railhead.contract import environment
from railhead.contract.job_input import FILE, JobInput


@dataclass(frozen=True)
class Pod:
    """One pod of the job.

    Attributes:
        input_folder: where job.json and the report endpoint's CA are.
        bundle: the zipapp, for PYTHONPATH.
        uid: this pod's, empty for a worker.
        node: name of its Kubernetes node.
        ip: this pod's address, which Ray binds and advertises.
        head_host, head_port: where Ray's GCS listens.
        temp: folder with a short path, for Ray's session.
        attempt: number of the job's attempt.
        checkpoint_index: index of the newest commit of earlier attempts, -1 for none.
        worker_pods: desired number when this head was created, or None.
        progress_deadline: how many seconds training may report nothing, or None for no limit.
        resume_from: the checkpoint of spec.resumeFrom, or None.
        report_url, report_token: the report endpoint and the file with the token; or None.
        termination_message: file for the outcome, or None.
    """

    input_folder: Path
    bundle: str
    ip: str
    head_host: str
    head_port: int
    temp: Path
    attempt: int
    checkpoint_index: int
    worker_pods: Optional[int]
    resume_from: Optional[str]
    report_url: Optional[str]
    report_token: Optional[str]
    termination_message: Optional[str]
    progress_deadline: Optional[float] = None
    uid: str = ""
    node: str = ""

    @staticmethod
    def from_environment(variables: Mapping[str, str]) -> Pod:
        """Raises KeyError with the variable's name when the operator left one out."""
        return Pod(
            input_folder=Path(variables[environment.INPUT]),
            bundle=variables[environment.BUNDLE],
            uid=variables.get(environment.POD_UID) or "",
            node=variables.get(environment.NODE_NAME) or "",
            ip=variables[environment.POD_IP],
            head_host=variables[environment.HEAD_HOST],
            head_port=int(variables[environment.HEAD_PORT]),
            temp=Path(variables[environment.TEMP]),
            attempt=int(variables.get(environment.ATTEMPT) or 1),
            checkpoint_index=int(variables.get(environment.CHECKPOINT_INDEX) or -1),
            worker_pods=_read_number(variables, environment.WORKER_PODS),
            progress_deadline=float(variables[environment.PROGRESS_DEADLINE])
            if variables.get(environment.PROGRESS_DEADLINE)
            else None,
            resume_from=variables.get(environment.RESUME_FROM) or None,
            report_url=variables.get(environment.REPORT_URL) or None,
            report_token=variables.get(environment.REPORT_TOKEN) or None,
            termination_message=variables.get(environment.TERMINATION_MESSAGE) or None,
        )

    def read_job(self) -> JobInput:
        return JobInput.from_json((self.input_folder / FILE).read_text())


def _read_number(variables: Mapping[str, str], name: str) -> Optional[int]:
    """Returns the variable's number, or None where it is unset or, as an image may have it, empty."""
    text = variables.get(name)
    if text:
        return int(text)
    return None


def read_working_folder() -> str:
    """Returns the container's working directory, or the root if it was removed under us."""
    try:
        return os.getcwd()
    except OSError:
        return "/"
