"""The input of a pod's entry point: its environment and the job's input, as one value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from railhead.contract import environment as e
from railhead.contract.job_input import FILE, JobInput


@dataclass(frozen=True)
class Pod:
    """One pod of the job.

    Attributes:
        input_folder: where job.json and the report endpoint's CA are.
        bundle: the zipapp, for PYTHONPATH.
        uid: this pod's, empty for a worker.
        ip: this pod's address, which Ray binds and advertises.
        head_host, head_port: where Ray's GCS listens.
        temp: folder with a short path, for Ray's session.
        attempt: number of the job's attempt.
        checkpoint_index: index of the newest commit of earlier attempts, -1 for none.
        worker_pods: desired number when this head was created, or None.
        progress_deadline: how many seconds training may report nothing, or None for no limit.
        end_seconds: how long the driver waits for one more commit after SIGTERM.
        storage: run.storagePath when it is a path.
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
    storage: Optional[str]
    resume_from: Optional[str]
    report_url: Optional[str]
    report_token: Optional[str]
    termination_message: Optional[str]
    end_seconds: float = 0.0
    progress_deadline: Optional[float] = None
    uid: str = ""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Pod:
        """Raises KeyError with the variable's name when the operator left one out."""
        return Pod(
            input_folder=Path(environment[e.INPUT]),
            bundle=environment[e.BUNDLE],
            uid=environment.get(e.POD_UID) or "",
            ip=environment[e.POD_IP],
            head_host=environment[e.HEAD_HOST],
            head_port=int(environment[e.HEAD_PORT]),
            temp=Path(environment[e.TEMP]),
            attempt=int(environment.get(e.ATTEMPT, "1")),
            checkpoint_index=int(environment.get(e.CHECKPOINT_INDEX) or -1),
            worker_pods=int(environment[e.WORKER_PODS]) if environment.get(e.WORKER_PODS) else None,
            end_seconds=float(environment.get(e.END_SECONDS) or 0),
            progress_deadline=float(environment[e.PROGRESS_DEADLINE]) if environment.get(e.PROGRESS_DEADLINE) else None,
            storage=environment.get(e.STORAGE) or None,
            resume_from=environment.get(e.RESUME_FROM) or None,
            report_url=environment.get(e.REPORT_URL) or None,
            report_token=environment.get(e.REPORT_TOKEN) or None,
            termination_message=environment.get(e.TERMINATION_MESSAGE) or None,
        )

    def read_job(self) -> JobInput:
        return JobInput.from_json((self.input_folder / FILE).read_text())


def find_storage_path(pod: Pod, job: JobInput) -> str:
    """The URI of the job's input, else the path from the environment, which a local node rewrites."""
    return job.storage_path or pod.storage or ""


def read_working_folder() -> str:
    """The container's working directory, or the root if it was removed under us."""
    try:
        return os.getcwd()
    except OSError:
        return "/"
