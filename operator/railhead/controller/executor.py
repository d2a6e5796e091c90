"""Executes a plan: the one file that changes anything in the cluster.

The status comes first, under its compare; when it does not succeed, nothing else is done
and the job is looked at again. Creates are idempotent by name, deletes name their uid.
Every answer is taught to the stores at once, so that the next pass sees what this one did.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from railhead.api.job import JobKey
from railhead.api.names import LABEL_JOB_UID
from railhead.controller.events import EventRecorder
from railhead.controller.observe import owner_uid
from railhead.controller.pod_events import find_problem
from railhead.controller.rejection import find_reason, is_of_webhook
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, RetryAfter
from railhead.kube.kinds import CHILDREN, CONFIG_MAP, EVENT, POD, TRAIN_JOB
from railhead.kube.types import Object
from railhead.planning.facts.reasons import SOURCE_NOT_FOUND
from railhead.planning.plan import CopyConfigMap, Create, Delete, Plan, Remove, StatusWrite
from railhead.planning.pod_view import PodView, Problem
from railhead.planning.status_write import build_operations
from railhead.resources.secret import TOKEN_TO_BE_GENERATED

log = logging.getLogger(__name__)

REQUESTS_AT_A_TIME = 16  # of one plan
MAX_WORDS = 1000  # of a refusal


class CacheUpdater(Protocol):
    """Where answers go."""

    def record_job(self, raw: Object) -> None: ...
    def record_job_gone(self, key: JobKey, uid: str) -> None: ...
    def record_pod(self, raw: Object) -> None: ...


class LostCompare(Exception):
    """The job is not any more what the plan was made from; observe again."""


class ChildRejected(Exception):
    """The API server will not have a child of this job (quota, admission, a bad template)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.reason}: {problem.message}")
        self.problem = problem


@dataclass
class Executor:
    """Does what plans say. Raises KubeError when the API server does not answer."""

    client: KubeClient
    cache: CacheUpdater
    events: EventRecorder
    make_token: Callable[[], str] = lambda: secrets.token_hex(32)

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        """One plan about one job.

        Raises:
            LostCompare: the status was not written; nothing was done.
            ChildRejected: a child was refused; what could be made was made.
            KubeError: no answer; anything may or may not have been done.
        """
        if plan.status is not None:
            if plan.status.pods is not None:
                await self._look_for_others(key, uid, plan.status.pods)
            await self._write_status(key, uid, plan.status)
        parents = [c for c in plan.creates if c.kind != "Pod"]
        pods = [c for c in plan.creates if c.kind == "Pod"]
        await self._all([*(self._delete(key, d) for d in plan.deletes), *(self._remove(key, r) for r in plan.removes)])
        try:
            await self._all(self._make(key, uid, c) for c in parents)
            await self._all(self._make(key, uid, c) for c in pods)
        except ChildRejected:
            await self._tell(key, uid, plan)  # what was decided stands all the same
            raise
        if plan.last is not None:
            await self._write_status(key, uid, plan.last)
        await self._tell(key, uid, plan)

    async def look_up_events(self, key: JobKey, pod: PodView) -> Problem | None:
        """Why the pod does not start, by the events about it."""
        about = f"involvedObject.uid={pod.uid},type=Warning"
        try:
            page = await self.client.list(EVENT, namespace=key.namespace, field_selector=about)
        except Denied:
            return None  # rights that somebody cut to their taste; all else goes on
        return find_problem(page.get("items") or [])

    async def _tell(self, key: JobKey, uid: str, plan: Plan) -> None:
        for event in plan.events:
            await self.events.record(key, uid, event)

    async def _look_for_others(self, key: JobKey, uid: str, seen: frozenset[str]) -> None:
        """The watch of pods may be behind that of jobs: what counts as lost may only not have been seen."""
        page = await self.client.list(POD, namespace=key.namespace, label_selector=f"{LABEL_JOB_UID}={uid}")
        for pod in page.get("items") or []:
            self.cache.record_pod(pod)
            if pod["metadata"]["uid"] not in seen:
                raise LostCompare(f"pod {pod['metadata']['name']} was not seen before")

    async def _write_status(self, key: JobKey, uid: str, write: StatusWrite) -> None:
        body = [{"op": "test", "path": path, "value": value} for path, value in write.tests.items()]
        body += build_operations(write.fields)
        try:
            answer = await self.client.patch(
                TRAIN_JOB, key.name, body, type_="json", namespace=key.namespace, subresource="status"
            )
        except (Gone, Conflict, Denied) as error:
            # A failed test and an invalid request answer alike (422), a job that is gone and an API server
            # that does not know its kind for a moment too (404): only the object can tell.
            await self._look_again(key, uid, write, error)
            return
        self.cache.record_job(answer)

    async def _look_again(self, key: JobKey, uid: str, write: StatusWrite, error: Exception) -> None:
        try:
            current = await self.client.get(TRAIN_JOB, key.name, namespace=key.namespace)
        except Gone:
            self.cache.record_job_gone(key, uid)
            raise LostCompare("the job is gone") from None
        self.cache.record_job(current)
        if all(_at(current, path) == value for path, value in write.tests.items()):
            raise error
        raise LostCompare("the job changed in between")

    async def _make(self, key: JobKey, uid: str, child: Create | CopyConfigMap) -> None:
        if isinstance(child, CopyConfigMap):
            await self._copy(key, uid, child)
        else:
            await self._create(key, uid, child)

    async def _copy(self, key: JobKey, uid: str, copied: CopyConfigMap) -> None:
        """The copy is looked for first: once it exists, its source may change or go."""
        existing = await self._find_config_map(key, copied, copied.name)
        if existing is not None:
            if owner_uid(existing) != uid:
                raise _refuse(copied, "one of this name exists that is not the job's; delete it")
            return
        source = await self._find_config_map(key, copied, copied.source)
        if source is None:
            raise _refuse_source(key, copied, "not found; create it")
        data, binary = source.get("data") or {}, source.get("binaryData") or {}
        missing = [name for name in copied.keys if name not in data and name not in binary]
        if missing:
            raise _refuse_source(key, copied, f"has no key {missing[0]}; add it")
        keys = copied.keys or (*data, *binary)
        content = {
            "data": {name: data[name] for name in keys if name in data},
            "binaryData": {name: binary[name] for name in keys if name in binary},
        }
        await self._create(key, uid, Create("ConfigMap", {**copied.body, **content}))

    async def _find_config_map(self, key: JobKey, copied: CopyConfigMap, name: str) -> Object | None:
        try:
            return await self.client.get(CONFIG_MAP, name, namespace=key.namespace)
        except Gone:
            return None
        except Denied as error:
            raise _refuse(copied, error.message, status=error.status) from error

    async def _create(self, key: JobKey, uid: str, create: Create) -> None:
        kind = CHILDREN[create.kind]
        try:
            answer = await self.client.create(kind, self._complete(create), namespace=key.namespace)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise  # a quota that others use at the same moment answers so; nothing was made
            if create.kind == "Pod":
                await self._meet(key, uid, create)
            return
        except (Denied, Gone, RetryAfter) as error:
            if isinstance(error, RetryAfter) and not is_of_webhook(error.status, error.message):
                raise
            raise _refuse(create, error.message, status=error.status) from error
        if create.kind == "Pod":
            self.cache.record_pod(answer)

    async def _meet(self, key: JobKey, uid: str, create: Create) -> None:
        """A pod of this name exists: our own, made before an answer was lost, or a stranger in its place."""
        existing = await self.client.get(POD, create.name, namespace=key.namespace)
        if owner_uid(existing) != uid:
            raise _refuse(create, "a pod of this name exists that is not the job's; delete it")
        self.cache.record_pod(existing)

    def _complete(self, create: Create) -> Object:
        if create.kind != "Secret":
            return dict(create.body)
        body = copy.deepcopy(dict(create.body))
        data = body["stringData"]
        body["stringData"] = {k: self.make_token() if v == TOKEN_TO_BE_GENERATED else v for k, v in data.items()}
        return body

    async def _delete(self, key: JobKey, delete: Delete) -> None:
        try:
            answer = await self.client.delete(POD, delete.name, namespace=key.namespace, uid=delete.uid)
        except (Gone, Conflict):
            return  # it is gone, or the name belongs to another pod
        if answer.get("kind") == "Pod":
            self.cache.record_pod(answer)

    async def _remove(self, key: JobKey, remove: Remove) -> None:
        for _ in range(2):  # a 404 may also be the word of something between us and the API server
            with contextlib.suppress(Gone):
                await self.client.delete(CHILDREN[remove.kind], remove.name, namespace=key.namespace)
                return

    @staticmethod
    async def _all(jobs: Any) -> None:
        """All of them, a few at a time; the first error after all have ended."""
        gate = asyncio.Semaphore(REQUESTS_AT_A_TIME)

        async def one(job: Any) -> None:
            async with gate:
                await job

        results = await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


def _refuse(create: Create | CopyConfigMap, why: str, *, status: int = 0) -> ChildRejected:
    reason = find_reason(create.kind, status, why)
    return ChildRejected(Problem(reason, f"{create.kind} {create.name} was refused: {why}"[:MAX_WORDS]))


def _refuse_source(key: JobKey, copied: CopyConfigMap, what: str) -> ChildRejected:
    words = f"{copied.field}: ConfigMap {key.namespace}/{copied.source} {what}"
    return ChildRejected(Problem(SOURCE_NOT_FOUND, words))


def _at(obj: Object, pointer: str) -> Any:
    value: Any = obj
    for part in pointer.strip("/").split("/"):
        value = value.get(part) if isinstance(value, dict) else None
    return value
