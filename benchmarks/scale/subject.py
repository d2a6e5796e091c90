"""The operator under test: how it is installed and started, and what its jobs look like.

A YAML file describes one, so that any operator can take its turn in the same run; `railhead.yaml` is
this tree's. Strings may have the placeholders of `string.Template`:

    install:  manifests, relative to the file
    command:  the program and its arguments; ${kubeconfig}, ${probe_port}, ${report_port}, ${python}
    ready:    a URL that answers 200 when the operator has seen all jobs; ${probe_port}
    jobs:     path of the collection that the jobs are created in; ${namespace}
    job:      one job; ${name}, ${namespace}, ${workers}
    pods_per_job: beside the workers

Without the following, a file's operator has fewer figures, or modes:

    metrics:  a URL of its own metrics; ${probe_port}
    queue_depth: the gauge of keys that are due (reconciled: none is)
    pass_seconds: the histogram of passes
    reports:  URL of its report endpoint; ${report_port}
    success:  how a job ends: the suffix of the pod's name, and its termination message
    ends:     true if the pods of a job end by themselves under KWOK, which only knows those of a Job
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

OURS = Path(__file__).with_name("railhead.yaml")


@dataclass(frozen=True)
class Success:
    """How a job ends: which of its pods, and with which termination message."""

    pod_suffix: str
    message: str


@dataclass(frozen=True)
class Subject:
    """One operator. `packages`: a folder that comes first on its PYTHONPATH, such as an older checkout's operator/."""

    name: str
    install: tuple[Path, ...]
    command: tuple[str, ...]
    ready: str
    jobs: str
    job: str
    pods_per_job: int
    packages: str = ""
    metrics: str = ""
    queue_depth: str = ""
    pass_seconds: str = ""
    reports: str = ""
    success: Success | None = None
    ends: bool = False

    @property
    def name_of_jobs(self) -> str:
        """The plural, as in the API server's metrics."""
        return self.jobs.rpartition("/")[2]

    def build_command(self, **values: str) -> list[str]:
        return [Template(argument).substitute(values) for argument in self.command]

    def build_job(self, name: str, *, namespace: str, workers: int, is_suspended: bool = False) -> bytes:
        text = Template(self.job).substitute(name=name, namespace=namespace, workers=workers)
        job = yaml.safe_load(text)
        if is_suspended:
            job["spec"]["suspend"] = True
        return json.dumps(job).encode()


def load_subject(path: Path = OURS, *, name: str = "", packages: str = "") -> Subject:
    """Raises OSError, KeyError or yaml.YAMLError for a file that is not one."""
    values: dict[str, Any] = yaml.safe_load(path.read_text())
    success = values.get("success")
    return Subject(
        name=name or str(values["name"]),
        install=tuple(path.parent / each for each in values["install"]),
        command=tuple(values["command"]),
        ready=str(values["ready"]),
        jobs=str(values["jobs"]),
        job=str(values["job"]),
        pods_per_job=int(values["pods_per_job"]),
        packages=packages,
        metrics=str(values.get("metrics", "")),
        queue_depth=str(values.get("queue_depth", "")),
        pass_seconds=str(values.get("pass_seconds", "")),
        reports=str(values.get("reports", "")),
        success=Success(str(success["pod_suffix"]), str(success["message"])) if success else None,
        ends=bool(values.get("ends", False)),
    )
