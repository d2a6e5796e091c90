"""Finds the TrainJob in a file of manifests, for `railhead local run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from railhead.api import names

DEFAULT_NAMESPACE = "default"


class BadFile(ValueError):
    """The file cannot be run; the message says why and what to do."""


@dataclass(frozen=True)
class JobName:
    """Namespace and name that the job will have."""

    namespace: str
    name: str


def find_job(path: Path) -> JobName:
    """The only TrainJob of the file, which may contain other objects too.

    Raises:
        BadFile: the file cannot be read, or it does not contain exactly one TrainJob with a name.
    """
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} is not YAML: {error}") from None
    jobs = [d["metadata"] for d in documents if _is_train_job(d)]
    if len(jobs) != 1:
        raise BadFile(f"{path} contains {len(jobs)} TrainJobs of {names.API_VERSION}; `run` needs exactly one")
    name = jobs[0].get("name")
    if not isinstance(name, str) or not name:
        raise BadFile(f"{path}: the TrainJob has no metadata.name; give it one")
    return JobName(str(jobs[0].get("namespace") or DEFAULT_NAMESPACE), name)


def _is_train_job(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") == names.KIND
        and str(document.get("apiVersion", "")).partition("/")[0] == names.GROUP
        and isinstance(document.get("metadata"), dict)
    )
