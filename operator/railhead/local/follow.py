"""Follows one job to its end, through watches, and prints what happens. `narrate.py` writes the lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from railhead.api import names
from railhead.kube.client import KubeClient, connect
from railhead.kube.errors import Gone
from railhead.kube.informer import Informer
from railhead.kube.kinds import POD, TRAIN_JOB
from railhead.kube.types import Object, keep_all
from railhead.local.narrate import JobResult, decide_ending, describe_job_change, describe_pod_change

Echo = Callable[[str], None]


async def follow(kubeconfig: str, *, namespace: str, name: str, echo: Echo) -> JobResult:
    """Prints every change of the job and of its pods, until the job has ended or is deleted."""
    async with connect(kubeconfig) as client:
        try:
            job = await client.get(TRAIN_JOB, name, namespace=namespace)
        except Gone:
            return JobResult(False, (f"there is no job {name} in namespace {namespace}",))
        return await _follow(client, job, echo)


async def _follow(client: KubeClient, job: Object, echo: Echo) -> JobResult:
    metadata = job["metadata"]
    namespace, uid = metadata["namespace"], metadata["uid"]
    ending: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()

    def on_job(old: Object | None, new: Object | None) -> None:
        if ending.done():
            return
        if new is None or new["metadata"]["uid"] != uid:
            ending.set_result(JobResult(False, ("the job was deleted",)))
            return
        for line in describe_job_change(old or {}, new):
            echo(line)
        end = decide_ending(new)
        if end is not None:
            ending.set_result(end)

    def on_pod(old: Object | None, new: Object | None) -> None:
        for line in [] if ending.done() else describe_pod_change(old, new):
            echo(line)

    selector = f"{names.LABEL_JOB_UID}={uid}"
    jobs = Informer(
        client,
        TRAIN_JOB,
        on_change=on_job,
        slim=keep_all,
        namespace=namespace,
        field_selector=f"metadata.name={metadata['name']}",
    )
    pods = Informer(client, POD, on_change=on_pod, slim=keep_all, namespace=namespace, label_selector=selector)
    tasks = [asyncio.create_task(informer.run()) for informer in (jobs, pods)]
    try:
        waited: list[asyncio.Future[Any]] = [ending, *tasks]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()  # an informer ends only with an error
        return await ending
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
