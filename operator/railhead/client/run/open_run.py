"""Finds the way to the files of a job's run: this machine, an object store, a pod of the job, or a reader's pod."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

from railhead.api import names
from railhead.api.run_status import RunStatus
from railhead.api.status import parse_status
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.job_snapshot import PodState
from railhead.client.cluster.kubectl import build_exec
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.process_files import ProcessFiles
from railhead.client.run.reader_job import CONTAINER, build_reader, run_reader
from railhead.client.run.run_files import RunFiles
from railhead.client.run.run_storage import open_copy, open_path
from railhead.client.run.store_files import StoreFiles
from railhead.client.run.store_uri import check_store, read_endpoints
from railhead.client.submit.rendering import read_spec
from railhead.contract.run_folder import is_of_job
from railhead.json_object import Object, part


class ReaderNeeded(ClientError):
    """The folder is on a claim that no pod mounts now."""


@asynccontextmanager
async def open_run(
    cluster: Cluster,
    job: Object,
    say: Callable[[str], None],
    *,
    copy: str | None = None,
    reader_image: str | None = None,
    endpoints: Sequence[str] = (),
    is_own: bool = False,
    may_start_reader: bool = True,
) -> AsyncIterator[RunFiles]:
    """Opens the folder of the job's run.

    Args:
        say: takes remarks for the user.
        copy: a copy of the folder, a path of this machine or a URI; None = where the job has it.
        reader_image: of a reader's pod; None = the job's.
        endpoints: servers of stores that the user trusts, besides the clouds' own.
        is_own: opens the job's own folder instead, as `choose_own_folder` finds it.
        may_start_reader: whether a reader's pod may be started.

    Raises:
        ReaderNeeded: only a reader's pod could read the folder, and none may be started.
        ClientError: there is no way to the folder, or it does not exist yet, or the user's credentials would be sent
            to a host that the user has not named.
    """
    if copy:
        yield await asyncio.to_thread(open_copy, copy)
        return
    folder = choose_folder(job)
    if is_own:
        folder = choose_own_folder(job)
    if "://" in folder:
        yield await _open_store(folder, endpoints)
        return
    if is_here(job, folder):
        yield open_path(folder)
        return
    command = build_exec(cluster)
    pod = choose_pod(await cluster.list_pods(job["metadata"]["uid"]))
    if pod is not None:
        yield _read_in(pod, names.CONTAINER, folder, command)
        return
    if not parse_status(job.get("status")).attempt:
        name = job["metadata"]["name"]
        raise ClientError(f"{name} has not begun an attempt; `railhead why {name}` says why", ExitCode.NOT_FOUND)
    if not may_start_reader:
        raise ReaderNeeded(f"no pod that runs mounts {folder}; a reader's pod must be started")
    async with run_reader(cluster, build_reader(job, folder=folder, image=reader_image), say) as reader:
        yield _read_in(reader, CONTAINER, folder, command)


async def _open_store(folder: str, endpoints: Sequence[str]) -> StoreFiles:
    uri = check_store(folder, read_endpoints(endpoints, os.environ))
    # pyarrow asks where the bucket is, for ten seconds if there is no answer; until then the whole page would stop.
    return await asyncio.to_thread(StoreFiles.open, uri)


def _read_in(pod: str, container: str, folder: str, command: tuple[str, ...]) -> ProcessFiles:
    return ProcessFiles(f"{folder} in pod {pod}", folder, (*command, "-i", pod, "-c", container, "--", "python3"))


def choose_pod(pods: list[PodState]) -> str | None:
    """Returns the name of a pod that runs, of the newest attempt; rather its head, whose Python trains nothing."""

    def rank(pod: PodState) -> tuple[int, bool]:
        return pod.attempt, pod.role == names.HEAD

    newest = max((pod for pod in pods if pod.is_running), key=rank, default=None)
    if newest:
        return newest.name
    return None


def choose_folder(job: Object) -> str:
    """Returns the path or URI of the run's folder: that of the status, if spec.run.storagePath allows it.

    A pod has reported that of the status, and the job's author has written the spec: `check_store` judges it.

    Raises:
        ClientError: the job's own code has put the run elsewhere, or the spec is invalid.
    """
    metadata = job["metadata"]
    spec = read_spec(job)
    base, mark, query = spec.run.storage_path.partition("?")
    own = choose_run_name(job)
    reported = parse_status(job.get("status")).run_uri.partition("?")[0]
    if reported.startswith("/"):
        return reported
    below = reported.removeprefix(f"{base.rstrip('/')}/")
    if not reported:
        below = own
    elif below == reported or ".." in PurePosixPath(below).parts:
        where = f"the run of {metadata['name']} is in {reported}, not below spec.run.storagePath"
        raise ClientError(f"{where}; pass it with --folder")
    return f"{base.rstrip('/')}/{below}{mark}{query}"


def choose_own_folder(job: Object) -> str:
    """Returns the path or URI of the job's own folder, which has what belongs to no single run of a script.

    That of the run may be another one: of a later fit(), or of a run that the user's code has named.

    Raises:
        ClientError: as `choose_folder` does.
    """
    path, mark, query = choose_folder(job).partition("?")
    parent, _, last = path.rstrip("/").rpartition("/")
    name = choose_run_name(job)
    if is_of_job(last, name):
        return f"{parent}/{name}{mark}{query}"
    if parent.rpartition("/")[2] == name:
        return f"{parent}{mark}{query}"
    return f"{path}{mark}{query}"


def is_here(job: Object, folder: str) -> bool:
    """Returns whether the folder is on this machine too: in local mode, or where its file system is mounted.

    Its path has the name of the job's run, so that no other folder of the same path is taken for it.
    """
    name = choose_run_name(job)
    path = Path(folder)
    return (is_of_job(path.name, name) or path.parent.name == name) and path.is_dir()


def choose_run_name(job: Object) -> str:
    """Returns the name of the job's run; a restored job keeps that of the TrainJob that it was restored from."""
    metadata = job["metadata"]
    run = part(part(job, "spec"), "run")
    status = parse_status(job.get("status"))
    recorded = status.run or RunStatus()
    return recorded.name or names.run_name(metadata["name"], metadata["uid"], run.get("name"))
