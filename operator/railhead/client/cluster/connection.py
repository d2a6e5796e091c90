"""Requests about TrainJobs in the user's cluster. Each error is a ClientError that says what could not be done."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

from railhead.api import names
from railhead.api.forms import put_into_words
from railhead.client.cluster.job_losses import add_losses, needs_those_of_others, read_losses
from railhead.client.cluster.job_snapshot import JobSnapshot, PodState, read_pod
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.contract.loss_rate import NO_JOB_LOSSES, JobLosses
from railhead.json_object import Object, part, text
from railhead.kube.bodies import keep_all
from railhead.kube.client import KubeClient, Scope, connect
from railhead.kube.errors import Conflict, Gone, KubeError, RetryAfter
from railhead.kube.informer import Informer, OnChange
from railhead.kube.kinds import EVENT, POD, PVC, RESOURCE_QUOTA, SECRET, TRAIN_JOB
from railhead.kube.transport import ConfigException, read_namespace

Item = TypeVar("Item")
# Answers in a row, in about 10 s: an API server that starts may not know all users yet.
MOST_UNAUTHORIZED = 5
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Target:
    """The cluster and namespace of a command; None = as the kubeconfig says.

    Attributes:
        is_everywhere: all namespaces.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    is_everywhere: bool = False


@dataclass(frozen=True)
class Cluster:
    """An open connection.

    Attributes:
        namespace: of the jobs that are named.
        scope: the namespace of lists; None = all.
        target: what the user said about the cluster.
    """

    client: KubeClient
    namespace: str
    scope: str | None
    target: Target = Target()

    async def get_job(self, name: str) -> Object:
        """Returns the TrainJob."""
        with explaining(f"read the TrainJob {name} in namespace {self.namespace}"):
            return await self.client.get(TRAIN_JOB, name, namespace=self.namespace)

    async def find_job(self, name: str) -> Object | None:
        """Returns the TrainJob, None if there is none."""
        try:
            return await self.get_job(name)
        except ClientError as error:
            if error.code != ExitCode.NOT_FOUND:
                raise
            return None

    async def find_pod(self, name: str) -> Object | None:
        """Returns the pod, None if there is none."""
        with explaining(f"read the pod {name} in namespace {self.namespace}"):
            try:
                return await self.client.get(POD, name, namespace=self.namespace)
            except Gone:
                return None

    async def read_secret(self, name: str, key: str) -> str:
        """Returns the value of this key of the Secret, which must not get into a log; "" without the key."""
        with explaining(f"read the Secret {name} in namespace {self.namespace}"):
            secret = await self.client.get(SECRET, name, namespace=self.namespace)
        return base64.b64decode(text(part(secret, "data"), key)).decode(errors="replace")

    async def read_log(self, pod: str, most: int) -> list[str]:
        """Returns the lines of the pod's log, of at most that many bytes from its beginning."""
        query = urlencode({"container": names.CONTAINER, "limitBytes": most})
        with explaining(f"read the log of pod {pod} in namespace {self.namespace}"):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log?{query}"
            return [line.decode(errors="replace") async for line in self.client.stream_lines(path, with_rest=True)]

    async def list_jobs(self, selector: str, read: Callable[[Object], Item]) -> list[Item]:
        """Returns what `read` keeps of each job. No page of the list is kept."""
        with explaining(f"list TrainJobs in {self.place}"):
            listed = await self.client.list_each(Scope(TRAIN_JOB, self.scope, label_selector=selector), read)
        return listed.items

    async def read_snapshot(self, name: str, known_losses: JobLosses | None = None) -> JobSnapshot:
        """Returns the job with its pods and events. What the user may not read is named in the snapshot.

        `known_losses`: of the namespace's jobs; None: they are listed if this job has too few of its own.
        """
        job = await self.get_job(name)
        uid = str(job["metadata"]["uid"])
        notes: list[str] = []
        pods, events, losses = await asyncio.gather(
            self._read_all(self._pods_of(uid), notes),
            self._read_all(Scope(EVENT, self.namespace, field_selector=f"involvedObject.uid={uid}"), notes),
            self._read_losses(job, known_losses),
        )
        return JobSnapshot(job, tuple(pods), tuple(events), self.client.clock.now(), tuple(notes), losses)

    async def list_pods(self, uid: str) -> list[PodState]:
        """Returns the pods of the job with this uid."""
        with explaining(f"list pods in namespace {self.namespace}"):
            return (await self.client.list_each(self._pods_of(uid), read_pod)).items

    async def change(self, name: str, patch: Object) -> Object:
        """Merges the patch into the TrainJob; a field that the API server does not know is an error."""
        with explaining(f"change the TrainJob {name}"):
            return await self.client.patch(TRAIN_JOB, name, patch, namespace=self.namespace, is_strict=True)

    async def create_job(self, job: Object, *, is_dry_run: bool = False) -> Object:
        """Creates the TrainJob, or only checks it; a field that the API server does not know is an error."""
        with explaining(f"create the TrainJob {job['metadata']['name']}"):
            return await self.client.create(
                TRAIN_JOB, job, namespace=self.namespace, is_strict=True, is_dry_run=is_dry_run
            )

    async def list_quotas(self) -> list[Object]:
        """Returns the ResourceQuotas of the namespace."""
        with explaining(f"list resourcequotas in namespace {self.namespace}"):
            return await self.client.list(Scope(RESOURCE_QUOTA, self.namespace))

    async def has_claim(self, name: str) -> bool:
        """Returns whether the namespace has the PersistentVolumeClaim."""
        with explaining(f"read the claim {name} in namespace {self.namespace}"):
            try:
                await self.client.get(PVC, name, namespace=self.namespace)
            except Gone:
                return False
            return True

    async def delete_job(self, name: str, uid: str, namespace: str) -> None:
        """Deletes the TrainJob that has this uid; one that is gone already is no error."""
        with explaining(f"delete the TrainJob {name}"), suppress(Gone):
            await self.client.delete(TRAIN_JOB, name, namespace=namespace, uid=uid)

    async def watch_jobs(self, selector: str, on_change: OnChange[Item], read: Callable[[Object], Item]) -> None:
        """Calls `on_change` for each job and each change, until it is cancelled."""
        await self.watch(Scope(TRAIN_JOB, self.scope, label_selector=selector), on_change, read)

    async def open_jobs(
        self, selector: str, read: Callable[[Object], Item], on_change: OnChange[Item]
    ) -> Informer[Item]:
        """Returns a view of the jobs, which its `run()` keeps up to date; `answered` is set after the first list."""
        return await self._open(Scope(TRAIN_JOB, self.scope, label_selector=selector), on_change, read)

    async def watch_job(self, job: Object, on_change: OnChange[Object]) -> None:
        """Calls `on_change` for the job and each change of it, its deletion included, until it is cancelled."""
        field = f"metadata.name={job['metadata']['name']}"
        await self.watch(Scope(TRAIN_JOB, self.namespace, field_selector=field), on_change, keep_all, known=job)

    async def watch_pods(self, uid: str, on_change: OnChange[PodState]) -> None:
        """Calls `on_change` for each pod of the job and each change, until it is cancelled."""
        await self.watch(self._pods_of(uid), on_change, read_pod)

    def _pods_of(self, uid: str) -> Scope:
        return Scope(POD, self.namespace, f"{names.LABEL_JOB_UID}={uid}")

    @property
    def place(self) -> str:
        if self.scope:
            return f"namespace {self.scope}"
        return "all namespaces"

    async def watch(
        self, scope: Scope, on_change: OnChange[Item], read: Callable[[Object], Item], *, known: Object | None = None
    ) -> None:
        """Calls `on_change` for each object and each change, until it is cancelled; `known`: seen before."""
        informer = await self._open(scope, on_change, read)
        if known is not None:
            # So that its absence from the first list is a change.
            informer.record_write(known)
        with explaining(f"watch {scope.kind.plural}"):
            await informer.run()

    async def _open(self, scope: Scope, on_change: OnChange[Item], read: Callable[[Object], Item]) -> Informer[Item]:
        with explaining(f"list {scope.kind.plural} in {scope.namespace or 'all namespaces'}"):
            try:
                # An informer would wait for the right to list.
                await self.client.ask_list(scope.kind, scope.namespace)
            except RetryAfter:
                # This command may have stood still, as on a laptop that slept.
                await self.client.ask_list(scope.kind, scope.namespace)
        return Informer(self.client, scope, on_change=on_change, slim=read, most_unauthorized=MOST_UNAUTHORIZED)

    async def _read_losses(self, job: Object, known: JobLosses | None) -> JobLosses:
        """Adds up those of the namespace's jobs, if the job's own are too few. None are known to who may not list."""
        if not needs_those_of_others(job):
            return NO_JOB_LOSSES
        if known is not None:
            return known
        try:
            return add_losses((await self.client.list_each(Scope(TRAIN_JOB, self.namespace), read_losses)).items)
        except KubeError:
            return read_losses(job)

    async def _read_all(self, scope: Scope, notes: list[str]) -> list[Object]:
        try:
            return await self.client.list(scope)
        except KubeError as error:
            notes.append(f"The {scope.kind.plural} could not be read: {error.message or error.reason}.")
            return []


@contextmanager
def explaining(doing: str) -> Iterator[None]:
    """Turns the API server's refusals into ClientErrors."""
    try:
        yield
    except KubeError as error:
        raise explain_error(error, doing) from None


def explain_error(error: KubeError, doing: str) -> ClientError:
    """Returns what the API server's answer means for a user; `doing` completes "cannot ..."."""
    if error.status in (401, 403):
        remedy = "ask an administrator for the right"
        if error.status == 401:
            remedy = "log in again"
        return ClientError(f"cannot {doing}: {error.message}; {remedy}", ExitCode.DENIED)
    if error.status == 404:
        return ClientError(f"cannot {doing}: {error.message}", ExitCode.NOT_FOUND)
    if isinstance(error, RetryAfter):
        message = f"cannot {doing}: no answer from the API server ({error.message or error.reason}); try again"
        return ClientError(message, ExitCode.UNREACHABLE)
    if isinstance(error, Conflict) and error.reason == "AlreadyExists":
        return ClientError(f"cannot {doing}: {error.message}; choose another name", ExitCode.REFUSED)
    # It builds the CRD, which takes half a second and is of use only here.
    from railhead.client.fields import add_suggestions

    message = add_suggestions(put_into_words(error.message or error.reason))
    return ClientError(f"cannot {doing}: {message}", ExitCode.REFUSED)


@asynccontextmanager
async def open_cluster(target: Target) -> AsyncIterator[Cluster]:
    """Connects to the target's cluster. Raises ClientError."""
    kubeconfig = target.kubeconfig or os.environ.get("KUBECONFIG") or _default_kubeconfig()
    try:
        found = ""
        if kubeconfig:
            found = read_namespace(kubeconfig, target.context)
        elif POD_NAMESPACE.exists():
            found = POD_NAMESPACE.read_text().strip()
        namespace = target.namespace or found or "default"
        async with connect(kubeconfig, target.context) as client:
            yield Cluster(client, namespace, None if target.is_everywhere else namespace, target)
    except ConfigException as error:
        message = f"no cluster to talk to: {error}; set KUBECONFIG or --kubeconfig"
        raise ClientError(message, ExitCode.UNREACHABLE) from None


def _default_kubeconfig() -> str | None:
    path = Path.home() / ".kube" / "config"
    if path.exists():
        return str(path)
    return None
