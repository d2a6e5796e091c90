"""Rewrites the mount paths in a job's input, which on this node are folders of the machine.

A local node has no mounts. Production code knows nothing of that: the driver gets its input in the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from railhead.contract import environment
from railhead.contract.digest import digest_files
from railhead.contract.job_input import CA_KEY, FILE, JobInput
from railhead.local.node.container_env import rewrite


def rewrite_input(env: Mapping[str, str], mounts: Mapping[str, str], *, folder: Path) -> dict[str, str]:
    """Writes a copy of the container's input with real paths; returns the variables that name it and its digest.

    Returns none for a container without an input. An input that is not the operator's own stays as it is, so that the
    driver refuses it as it does on a cluster.
    """
    source = env.get(environment.INPUT)
    wanted = env.get(environment.INPUT_DIGEST)
    if not source or not wanted:
        return {}
    paths = (Path(source, name) for name in (FILE, CA_KEY))
    files = {path.name: path.read_bytes() for path in paths if path.is_file()}
    if FILE not in files or digest_files(files) != wanted:
        return {}
    files[FILE] = _rewrite_paths(JobInput.from_json(files[FILE].decode()), mounts).to_json().encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {environment.INPUT: str(folder), environment.INPUT_DIGEST: digest_files(files)}


def _rewrite_paths(job: JobInput, mounts: Mapping[str, str]) -> JobInput:
    datasets = {name: replace(each, uri=_rewrite_path(each.uri, mounts)) for name, each in job.datasets.items()}
    return replace(job, storage_path=_rewrite_path(job.storage_path, mounts), datasets=datasets)


def _rewrite_path(value: str, mounts: Mapping[str, str]) -> str:
    # A part of a URI may look like a mount path.
    if not value.startswith("/"):
        return value
    return rewrite(value, mounts)
