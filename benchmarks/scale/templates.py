"""One real job of each kind, as its operator leaves it, and copies of it.

A copy is the same text with another name, another uid, and another start of the uid, of which operators make names.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from string import Template as Text

import aiohttp

from benchmarks.run import RunFailed
from benchmarks.scale.api import Api, Object, for_each
from benchmarks.scale.driver import Driver, create_token, find_authority
from benchmarks.scale.kubelet import build_succeeded, run_pods, set_status
from benchmarks.scale.plane import NAMESPACE, PODS
from benchmarks.scale.process import Process
from benchmarks.scale.subject import Subject

LIMIT_SECONDS = 60.0
QUIET_SECONDS = 3.0
KEPT = ("labels", "annotations", "finalizers")
TAG = 6  # characters of the uid


@dataclass(frozen=True)
class Template:
    """A real job and its pods."""

    job: Object
    pods: tuple[Object, ...]

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    def build_job(self, name: str) -> bytes:
        metadata = {key: value for key, value in self.job["metadata"].items() if key in KEPT}
        job = {key: self.job[key] for key in ("apiVersion", "kind", "spec")}
        return json.dumps({**job, "metadata": {**metadata, "name": name, "namespace": NAMESPACE}}).encode()

    def build_status(self, job: Object) -> Object:
        return dict(json.loads(self._rename(json.dumps(self.job.get("status", {})), job)))

    def build_pods(self, job: Object) -> list[Object]:
        """With their status, which the API server takes by itself."""
        kept = [
            {
                "metadata": {
                    key: pod["metadata"][key]
                    for key in ("name", "labels", "annotations", "ownerReferences")
                    if key in pod["metadata"]
                },
                "spec": pod["spec"],
                "status": pod["status"],
            }
            for pod in self.pods
        ]
        return list(json.loads(self._rename(json.dumps(kept), job)))

    def _rename(self, text: str, job: Object) -> str:
        old, new = str(self.job["metadata"]["uid"]), str(job["metadata"]["uid"])
        text = text.replace(old, new).replace(self.name, job["metadata"]["name"])
        return text.replace(f"-{old[:TAG]}", f"-{new[:TAG]}")


@dataclass(frozen=True)
class Templates:
    """Of each kind of job; `finished` is None for an operator whose jobs do not end by a pod's termination message."""

    running: Template
    suspended: Template
    finished: Template | None


async def make_templates(api: Api, subject: Subject, process: Process, *, workers: int) -> Templates:
    """Runs one job of each kind with the operator, which is running."""
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    names = ["like-running", "like-suspended", *(["like-finished"] if subject.success else [])]
    for name in names:
        body = subject.build_job(name, namespace=NAMESPACE, workers=workers, is_suspended=name == "like-suspended")
        await api.request("POST", path, body)
    wanted = (workers + subject.pods_per_job) * (len(names) - 1)
    await wait_pods(api, "like-", wanted)
    for name in names:
        if name != "like-suspended":
            await _begin(api, subject, process, name, workers=workers)
    if subject.success:
        for pod in await find_pods(api, "like-finished"):
            if pod["metadata"]["name"].endswith(subject.success.pod_suffix):
                message = subject.success.message
                await set_status(api, pod["metadata"]["name"], build_succeeded(pod, message=message))
    found = [await _capture(api, f"{path}/{name}") for name in names]
    return Templates(found[0], found[1], found[2] if subject.success else None)


async def _begin(api: Api, subject: Subject, process: Process, name: str, *, workers: int) -> None:
    """The job's pods run, and its driver has reported once."""
    pods = await find_pods(api, name)
    await run_pods(api, pods)
    if subject.reports:
        job = await api.request("GET", f"{Text(subject.jobs).substitute(namespace=NAMESPACE)}/{name}")
        await asyncio.sleep(QUIET_SECONDS)  # the operator has seen the pods run
        connector = aiohttp.TCPConnector(ssl=await find_authority(api))
        async with aiohttp.ClientSession(connector=connector) as session:
            await (driver := await connect_driver(api, process, job, pods, workers)).report(session)
        if list(driver.answers) != [202]:
            raise RunFailed(f"the report of {name} was answered with {dict(driver.answers)}")


async def connect_driver(api: Api, process: Process, job: Object, pods: list[Object], workers: int) -> Driver:
    [head] = [pod for pod in pods if pod["metadata"]["name"].endswith("-head")]
    return Driver(job, await create_token(api, head), workers, process.reports, Counter())


async def find_pods(api: Api, prefix: str) -> list[Object]:
    items = (await api.request("GET", PODS))["items"]
    return [pod for pod in items if pod["metadata"]["name"].startswith(prefix)]


async def wait_pods(api: Api, prefix: str, wanted: int) -> list[Object]:
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(found := await find_pods(api, prefix)) < wanted:
        if time.monotonic() > deadline:
            raise RunFailed(f"{len(found)} pods of {wanted} after {LIMIT_SECONDS:.0f} s")
        await asyncio.sleep(0.2)
    return found


async def _capture(api: Api, path: str) -> Template:
    """Once nothing has changed for some seconds."""
    deadline = time.monotonic() + LIMIT_SECONDS
    job, pods, since = await api.request("GET", path), list[Object](), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        if time.monotonic() > deadline:
            raise RunFailed(f"{path} keeps changing")
        await asyncio.sleep(0.2)
        now = await api.request("GET", path), await find_pods(api, path.rpartition("/")[2])
        if now != (job, pods):
            (job, pods), since = now, time.monotonic()
    return Template(job, tuple(pods))


async def write_copies(api: Api, subject: Subject, template: Template, names: list[str]) -> None:
    """Puts copies into the API server: each job, its status, its pods and their status."""
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)

    async def write(name: str) -> None:
        job = await api.request("POST", path, template.build_job(name))
        if status := template.build_status(job):
            await api.merge(f"{path}/{name}/status", {"status": status})
        for pod in template.build_pods(job):
            await api.request("POST", PODS, json.dumps({"metadata": pod["metadata"], "spec": pod["spec"]}).encode())
            await set_status(api, pod["metadata"]["name"], pod["status"])

    await for_each(names, write)
