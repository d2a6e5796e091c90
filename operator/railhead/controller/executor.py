"""Executes a plan: the only module that changes the cluster.

The status is written first, as a compare-and-set; when that fails, nothing else is done
and the job is reconciled again. Creates are idempotent by name, deletes name their uid.
Every response is written to the caches at once, so that the next pass sees what this one did.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from railhead.api.job import JobKey
from railhead.api.names import LABEL_JOB_UID
from railhead.controller.events import EventRecorder
from railhead.controller.observe import owner_uid
from railhead.controller.pod_events import find_problem
from railhead.controller.recent import RecentChildren
from railhead.controller.rejection import find_reason, is_of_webhook
from railhead.controller.slow_start import run_all
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, RetryAfter
from railhead.kube.kinds import CHILDREN, CONFIG_MAP, EVENT, POD, TRAIN_JOB
from railhead.kube.types import Object
from railhead.planning.facts.reasons import SOURCE_NOT_FOUND
from railhead.planning.plan import CopyConfigMap, Create, Delete, DeleteJob, Plan, Remove, StatusWrite
from railhead.planning.pod_view import PodView, Problem
from railhead.planning.status_write import build_operations
from railhead.resources.secret import TOKEN_TO_BE_GENERATED

log = logging.getLogger(__name__)

MAX_MESSAGE_CHARS = 1000  # of a rejection
NEVER_READ = frozenset({"Secret", "NetworkPolicy"})  # the operator has no right to


class CacheUpdater(Protocol):
    """Caches the API server's responses."""

    def record_job(self, raw: Object) -> None: ...
    def record_job_gone(self, key: JobKey, uid: str) -> None: ...
    def record_pod(self, raw: Object) -> None: ...


class LostCompare(Exception):
    """The job changed since the plan was made; observe again."""


class ChildRejected(Exception):
    """The API server rejects a child of this job (quota, admission, a bad template)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.reason}: {problem.message}")
        self.problem = problem


@dataclass
class Executor:
    """Executes plans. Raises KubeError when the API server does not answer."""

    client: KubeClient
    cache: CacheUpdater
    events: EventRecorder
    make_token: Callable[[], str] = lambda: secrets.token_hex(32)

    def __post_init__(self) -> None:
        self._recent = RecentChildren(self.client.clock.now)

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        """Executes one plan for one job.

        Raises:
            LostCompare: the job has changed; the status was not written and nothing was done, or the job not deleted.
            ChildRejected: a child was rejected; those that come after it were not sent.
            KubeError: no response; any part of the plan may or may not have been executed.
        """
        if plan.status is not None:
            if plan.status.pods is not None:
                await self._check_for_other_pods(key, uid, plan.status.pods)
            await self._write_status(key, uid, plan.status)
        parents = [c for c in plan.creates if c.kind != "Pod"]
        pods = [c for c in plan.creates if c.kind == "Pod"]
        await run_all(
            [
                *(partial(self._delete, key, d) for d in plan.deletes),
                *(partial(self._remove, key, r) for r in plan.removes),
            ]
        )
        try:
            await run_all(partial(self._make, key, uid, c) for c in parents)
            await run_all(partial(self._make, key, uid, c) for c in pods)
        except ChildRejected:
            await self._record_events(key, uid, plan)  # the decision stands nevertheless
            raise
        if plan.last is not None:
            await self._write_status(key, uid, plan.last)
        if plan.delete_job is not None:
            await self._delete_job(key, plan.delete_job)
        await self._record_events(key, uid, plan)

    async def look_up_events(self, key: JobKey, pod: PodView) -> Problem | None:
        """Why the pod does not start, according to its Events."""
        about = f"involvedObject.uid={pod.uid}"
        try:
            page = await self.client.list(EVENT, namespace=key.namespace, field_selector=about)
        except Denied:
            return None  # a ClusterRole cut down by its admin; everything else works without Events
        return find_problem(page.get("items") or [])

    async def _record_events(self, key: JobKey, uid: str, plan: Plan) -> None:
        for event in plan.events:
            await self.events.record(key, uid, event)

    async def _check_for_other_pods(self, key: JobKey, uid: str, seen: frozenset[str]) -> None:
        """The pod watch may lag behind the job watch: a pod that counts as lost may just not be in the cache yet."""
        page = await self.client.list(POD, namespace=key.namespace, label_selector=f"{LABEL_JOB_UID}={uid}")
        for pod in page.get("items") or []:
            self.cache.record_pod(pod)
            if pod["metadata"]["uid"] not in seen:
                raise LostCompare(f"pod {pod['metadata']['name']} was not in the cache")

    async def _write_status(self, key: JobKey, uid: str, write: StatusWrite) -> None:
        body = [{"op": "test", "path": path, "value": value} for path, value in write.tests.items()]
        body += build_operations(write.fields)
        try:
            answer = await self.client.patch(
                TRAIN_JOB, key.name, body, type_="json", namespace=key.namespace, subresource="status"
            )
        except (Gone, Conflict, Denied) as error:
            # A failed test and an invalid request both answer 422; a deleted job and an API server that does not
            # serve its kind for a moment both answer 404: only the object itself can tell.
            await self._explain_failure(key, uid, write.tests, error)
            return
        self.cache.record_job(answer)

    async def _explain_failure(self, key: JobKey, uid: str, tests: Mapping[str, Any], error: Exception) -> None:
        try:
            current = await self.client.get(TRAIN_JOB, key.name, namespace=key.namespace)
        except Gone:
            self.cache.record_job_gone(key, uid)
            raise LostCompare("the job is gone") from None
        self.cache.record_job(current)
        if all(_at(current, path) == value for path, value in tests.items()):
            raise error
        raise LostCompare("the job changed since it was observed")

    async def _delete_job(self, key: JobKey, wanted: DeleteJob) -> None:
        uid, version = wanted.uid, str(wanted.version)
        try:
            answer = await self.client.delete(TRAIN_JOB, key.name, namespace=key.namespace, uid=uid, version=version)
        except (Gone, Conflict) as error:
            tests = {"/metadata/uid": uid, "/metadata/resourceVersion": version}
            await self._explain_failure(key, uid, tests, error)
            return
        if answer.get("kind") == TRAIN_JOB.kind:  # somebody's finalizer keeps it
            self.cache.record_job(answer)

    async def _make(self, key: JobKey, uid: str, child: Create | CopyConfigMap) -> None:
        if isinstance(child, CopyConfigMap):
            await self._copy(key, uid, child)
        else:
            await self._create(key, uid, child)

    async def _copy(self, key: JobKey, uid: str, copied: CopyConfigMap) -> None:
        """Looks for the copy first: once it exists, its source may change or be deleted."""
        existing = await self._find_config_map(key, copied, copied.name)
        if existing is not None:
            if owner_uid(existing) != uid or existing.get("immutable") is not True:
                raise _reject_foreign(copied)
            return
        source = await self._find_config_map(key, copied, copied.source)
        if source is None:
            raise _reject_source(key, copied, "not found; create it")
        data, binary = source.get("data") or {}, source.get("binaryData") or {}
        missing = [name for name in copied.keys if name not in data and name not in binary]
        if missing:
            raise _reject_source(key, copied, f"has no key {missing[0]}; add it")
        keys = copied.keys or (*data, *binary)
        content = {
            "data": {name: data[name] for name in keys if name in data},
            "binaryData": {name: binary[name] for name in keys if name in binary},
        }
        await self._create(key, uid, Create("ConfigMap", copied.name, lambda: {**copied.build(), **content}))

    async def _find_config_map(self, key: JobKey, copied: CopyConfigMap, name: str) -> Object | None:
        try:
            return await self.client.get(CONFIG_MAP, name, namespace=key.namespace)
        except Gone:
            return None
        except Denied as error:
            raise _reject(copied, error.message, status=error.status) from error

    async def _create(self, key: JobKey, uid: str, create: Create) -> None:
        kind = CHILDREN[create.kind]
        if create.is_shared and self._recent.has(key.namespace, create.name):
            return
        try:
            body, is_pod = self._complete(create), create.kind == "Pod"  # with fields of the user's podTemplate
            answer = await self.client.create(kind, body, namespace=key.namespace, is_strict=is_pod)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise  # a quota under concurrent use also answers 409; nothing was created
            if create.kind not in NEVER_READ:
                await self._meet(key, uid, create)
            if create.is_shared:
                self._recent.note(key.namespace, create.name)
            return
        except (Denied, Gone, RetryAfter) as error:
            if isinstance(error, RetryAfter) and not is_of_webhook(error.status, error.message):
                raise
            raise _reject(create, error.message, status=error.status) from error
        if create.kind == "Pod":
            self.cache.record_pod(answer)
        if create.is_shared:
            self._recent.note(key.namespace, create.name)

    async def _meet(self, key: JobKey, uid: str, create: Create) -> None:
        """An object of this name exists: our own, from an earlier request, or a foreign one.

        The owner alone does not tell: whoever may create objects may name any owner.
        """
        try:
            existing = await self.client.get(CHILDREN[create.kind], create.name, namespace=key.namespace)
        except Denied as error:
            raise _reject(create, error.message, status=error.status) from error
        if not create.is_shared and owner_uid(existing) != uid:
            raise _reject_foreign(create)
        if create.is_same is not None and not create.is_same(existing):
            raise _reject(create, f"a {create.kind} of this name exists with other content; delete it")
        if create.kind == "Pod":
            self.cache.record_pod(existing)

    def _complete(self, create: Create) -> Object:
        body = dict(create.build())
        if create.kind == "Secret":
            data = body["stringData"]
            body["stringData"] = {k: self.make_token() if v == TOKEN_TO_BE_GENERATED else v for k, v in data.items()}
        return body

    async def _delete(self, key: JobKey, delete: Delete) -> None:
        try:
            answer = await self.client.delete(POD, delete.name, namespace=key.namespace, uid=delete.uid)
        except (Gone, Conflict):
            return  # already gone, or the name belongs to another pod
        if answer.get("kind") == "Pod":
            self.cache.record_pod(answer)

    async def _remove(self, key: JobKey, remove: Remove) -> None:
        self._recent.forget(key.namespace, remove.name)
        for _ in range(2):  # a 404 may also come from a proxy in front of the API server
            with contextlib.suppress(Gone):
                await self.client.delete(CHILDREN[remove.kind], remove.name, namespace=key.namespace)
                return


def _reject(create: Create | CopyConfigMap, why: str, *, status: int = 0) -> ChildRejected:
    reason = find_reason(create.kind, status, why)
    return ChildRejected(Problem(reason, f"{create.kind} {create.name} was rejected: {why}"[:MAX_MESSAGE_CHARS]))


def _reject_foreign(child: Create | CopyConfigMap) -> ChildRejected:
    return _reject(child, f"a {child.kind} of this name exists that this TrainJob does not own; delete it")


def _reject_source(key: JobKey, copied: CopyConfigMap, what: str) -> ChildRejected:
    message = f"{copied.field}: ConfigMap {key.namespace}/{copied.source} {what}"
    return ChildRejected(Problem(SOURCE_NOT_FOUND, message))


def _at(obj: Object, pointer: str) -> Any:
    value: Any = obj
    for part in pointer.strip("/").split("/"):
        value = value.get(part) if isinstance(value, dict) else None
    return value
