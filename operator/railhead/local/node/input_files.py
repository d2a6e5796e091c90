"""Rewrites the mount paths in a job's input, which on this node are folders of the machine.

A local node has no mounts. Production code knows nothing of that: the driver gets its input in the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from railhead.contract import environment
from railhead.contract.digest import digest_files
from railhead.contract.job_input import FILE, JobInput
from railhead.local.node.container_env import rewrite


def rewrite_input(env: Mapping[str, str], mounts: Mapping[str, str], *, folder: Path) -> dict[str, str]:
    """Writes a copy of the container's input with real paths; returns the variables that name it and its digest.

    Returns none for a container without an input. If somebody replaced the object, there is no copy either: the driver
    refuses the original as on a cluster, and names the object by the digest that the operator told.
    """
    if environment.INPUT not in env or environment.INPUT_DIGEST not in env:
        return {}
    files = _read_files(Path(env[environment.INPUT]))
    if digest_files(files) != env[environment.INPUT_DIGEST]:
        return {}
    job = JobInput.from_json(files[FILE].decode())
    # The same object has the inline code: the driver would name it by the digest of our copy.
    if job.source_digest and digest_files(_read_files(Path(env[environment.SOURCE]))) != job.source_digest:
        return {}
    copied = {**files, FILE: _rewrite_paths(job, mounts).to_json().encode()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in copied.items():
        (folder / name).write_bytes(content)
    return {environment.INPUT: str(folder), environment.INPUT_DIGEST: digest_files(copied)}


def _read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _rewrite_paths(job: JobInput, mounts: Mapping[str, str]) -> JobInput:
    datasets = {name: replace(each, uri=_rewrite_path(each.uri, mounts)) for name, each in job.datasets.items()}
    return replace(job, storage_path=_rewrite_path(job.storage_path, mounts), datasets=datasets)


def _rewrite_path(value: str, mounts: Mapping[str, str]) -> str:
    # A part of a URI may look like a mount path.
    if not value.startswith("/"):
        return value
    return rewrite(value, mounts)
