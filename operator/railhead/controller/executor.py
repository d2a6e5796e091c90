"""Executes a plan: the only module that changes the cluster.

The status is written first, as a compare-and-set; when that fails, nothing else is done
and the job is reconciled again. What the new status names no more is removed before that,
after the same compare. Creates are idempotent by name, deletes name their uid.
Every response is written to the caches at once, so that the next pass sees what this one did.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from railhead.api.names import LABEL_JOB_UID
from railhead.api.parsed_spec import JobKey
from railhead.controller.deletes import DeleteCache, Deleter
from railhead.controller.denied_status import StatusDenials
from railhead.controller.events import EventRecorder, find_node_added, find_problem
from railhead.controller.observe import has_own_name, observe_pod, owner_uid
from railhead.controller.refusals import Refusals, Subject
from railhead.controller.shared_children import Place, SharedChildren
from railhead.json_object import Object
from railhead.kube.bodies import build_patch
from railhead.kube.client import KubeClient, Scope
from railhead.kube.errors import WEBHOOK_TEXTS, Conflict, Denied, Gone, KubeError, is_changed, is_of_admission
from railhead.kube.informer import uid_of
from railhead.kube.kinds import CHILDREN, CONFIG_MAP, EVENT, POD, POD_GROUP, TRAIN_JOB, WORKLOAD, Kind
from railhead.planning.facts.reasons import (
    CREATE_REFUSED,
    FOREIGN_OBJECT,
    POD_INVALID,
    QUOTA_EXCEEDED,
    SCHEDULER_MISSING,
    SOURCE_NOT_FOUND,
    WEBHOOK_FAILED,
    read_admission_reason,
)
from railhead.planning.plan import (
    QUOTA_PROBE,
    SOURCE,
    CopyConfigMap,
    Create,
    DeleteJob,
    OwnedBy,
    Plan,
    Step,
    Verify,
    WorkloadPatch,
)
from railhead.planning.pod_view import PodEvents, PodView, Problem
from railhead.planning.wanted_status import StatusWrite
from railhead.resources.base import build_owner
from railhead.together import run_with_slow_start

log = logging.getLogger(__name__)

MAX_MESSAGE_CHARS = 1000  # of a rejection
STRICT_TEXT = "strict decoding error"


class CacheUpdater(DeleteCache, Protocol):
    """Caches the API server's responses."""

    def record_job(self, raw: Object) -> None: ...
    def record_job_gone(self, key: JobKey, uid: str) -> None: ...
    def record_workload(self, raw: Object) -> None: ...


class LostCompare(Exception):
    """The job changed since the plan was made; observe again."""


class ChildRejected(Exception):
    """The API server, or the operator itself, rejects a child of this job (quota, admission, a bad template)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.reason}: {problem.message}")
        self.problem = problem


@dataclass
class Executor:
    """Executes plans. Raises KubeError when the API server does not answer."""

    client: KubeClient
    cache: CacheUpdater
    events: EventRecorder

    def __post_init__(self) -> None:
        self._shared = SharedChildren(self.client.clock.monotonic)
        self._refusals = Refusals(self.client)
        self._denials = StatusDenials(self.client, self.events)
        self._deleter = Deleter(self.client, self.cache, self._refusals, self._shared)

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        """Executes one plan for one job.

        Raises:
            LostCompare: the job has changed; the status was not written and nothing was done, or the job not deleted.
            ChildRejected: a child was rejected; those that come after it were not sent.
            KubeError: no response; any part of the plan may or may not have been executed.
        """
        if plan.status is not None:
            # Before the write: afterwards it would be too late, since the status would count a loss that never was.
            if plan.status.pods is not None:
                await self._check_for_other_pods(key, uid, plan.status.pods)
            # Compared first without a change: what is removed here may still be in use if the view is stale.
            if plan.forgotten:
                await self._write_status(key, uid, replace(plan.status, fields={}))  # only compares
                await self._deleter.delete_all(key, uid, (), plan.forgotten)
            await self._write_status(key, uid, plan.status)
        # Deletes before creates: pods that go release their GPUs, whatever happens to the new ones.
        denied = await self._deleter.delete_all(key, uid, plan.deletes, plan.removes)
        if plan.workload is not None:
            patch = partial(self.patch_workload, key, plan.workload)
            await self._deleter.attempt(key, uid, WORKLOAD.kind, plan.workload.name, patch, verb="change")
        try:
            await self._make_all(key, uid, plan.creates)
        except ChildRejected:
            # The decision stands nevertheless.
            await self._record_events(key, uid, plan)
            raise
        # It records that everything is gone, so it must not be written while something is not.
        if plan.last is not None and not denied:
            await self._write_status(key, uid, plan.last)
        if plan.delete_job is not None:
            delete = partial(self._delete_job, key, plan.delete_job)
            await self._deleter.attempt(key, uid, TRAIN_JOB.kind, key.name, delete)
        await self._record_events(key, uid, plan)

    async def look_up_events(self, key: JobKey, pod: PodView) -> PodEvents:
        """Returns what the Events about the pod say."""
        about = f"involvedObject.uid={pod.uid}"
        try:
            events = await self.client.list(Scope(EVENT, key.namespace, field_selector=about))
        except Denied:
            # A ClusterRole cut down by its admin; everything else works without Events.
            events = []
        return PodEvents(find_problem(events), self.client.clock.now(), find_node_added(events))

    async def patch_workload(self, key: JobKey, patch: WorkloadPatch) -> None:
        """Changes the Workload by compare-and-set. Raises LostCompare if it changed since the plan was made."""
        # With the resourceVersion in the body, the API server answers 409 to a patch of another version.
        body = {**patch.fields, "metadata": {**patch.fields.get("metadata", {}), "resourceVersion": patch.version}}
        try:
            answer = await self.client.patch(
                WORKLOAD, patch.name, body, namespace=key.namespace, subresource=patch.subresource
            )
        except (Gone, Conflict) as error:
            if not is_changed(error):
                raise
            raise LostCompare(f"Workload {patch.name} changed since it was observed: {error}") from error
        self.cache.record_workload(answer)

    async def _record_events(self, key: JobKey, uid: str, plan: Plan) -> None:
        for event in plan.events:
            await self.events.record(key, uid, event)

    async def _check_for_other_pods(self, key: JobKey, uid: str, seen: frozenset[str]) -> None:
        """Raises LostCompare if the job has a pod that is not in the cache.

        The pod watch may lag behind the job watch: a pod that counts as lost may just not be in the cache yet.
        """
        for pod in await self.client.list(Scope(POD, key.namespace, label_selector=f"{LABEL_JOB_UID}={uid}")):
            self.cache.record_pod(pod)
            # A copy of a pod carries the label, too; the planner ignores it, and so must this check.
            is_own = owner_uid(pod) == uid and has_own_name(observe_pod(pod), key.name, uid)
            if is_own and uid_of(pod) not in seen:
                raise LostCompare(f"pod {pod['metadata']['name']} was not in the cache")

    async def _write_status(self, key: JobKey, uid: str, write: StatusWrite) -> None:
        body = build_patch(write.tests, write.fields, under="/status")
        try:
            answer = await self._patch_status(key, uid, write.tests, body)
        except KubeError as error:
            await self._denials.note(key, uid, error)
            raise
        self._denials.forget(key, uid)
        self.cache.record_job(answer)

    async def _patch_status(self, key: JobKey, uid: str, tests: Mapping[str, object], body: list[Object]) -> Object:
        try:
            return await self.client.patch(TRAIN_JOB, key.name, body, namespace=key.namespace, subresource="status")
        except (Gone, Conflict, Denied) as error:
            # A failed test and an invalid request both answer 422; a deleted job and an API server that does not
            # serve its kind for a moment both answer 404: only the object itself can tell.
            raise await self._explain_failure(key, uid, tests, error) from None

    async def _explain_failure(
        self, key: JobKey, uid: str, tests: Mapping[str, object], error: KubeError
    ) -> KubeError | LostCompare:
        """Returns the error of a write with these tests, or that the job has changed."""
        try:
            current = await self.client.get(TRAIN_JOB, key.name, namespace=key.namespace)
        except Gone:
            self.cache.record_job_gone(key, uid)
            return LostCompare("the job is gone")
        self.cache.record_job(current)
        if all(_resolve_pointer(current, path) == value for path, value in tests.items()):
            return error
        return LostCompare("the job changed since it was observed")

    async def _delete_job(self, key: JobKey, wanted: DeleteJob) -> None:
        uid = wanted.uid
        version = str(wanted.version)
        try:
            answer = await self.client.delete(TRAIN_JOB, key.name, namespace=key.namespace, uid=uid, version=version)
        except (Gone, Conflict) as error:
            if is_of_admission(error.message):
                raise
            tests = {"/metadata/uid": uid, "/metadata/resourceVersion": version}
            raise await self._explain_failure(key, uid, tests, error) from None
        # Somebody's finalizer keeps it.
        if answer.get("kind") == TRAIN_JOB.kind:
            self.cache.record_job(answer)

    async def _make_all(self, key: JobKey, uid: str, children: Sequence[Create | CopyConfigMap]) -> None:
        """Creates what pods refer to first, and an owner before what it owns."""
        uids: dict[str, str] = {}

        async def make(child: Create | CopyConfigMap) -> None:
            if isinstance(child, Create) and child.policy is QUOTA_PROBE:
                await self._probe_quota(key, child)
                return
            subject = Subject(uid, "create", child.kind, child.name)
            try:
                if isinstance(child, CopyConfigMap):
                    await self._copy(key, uid, child)
                else:
                    uids[child.name] = await self._create(key, uid, child, parent=uids.get(child.owner, ""))
            except KubeError as error:
                if not await self._refusals.judge(key, subject, error):
                    raise
                raise _reject(child, error.message, status=error.status) from error
            self._refusals.forget(subject)
            # Whatever was to be deleted by this name is wanted again.
            self.cache.forget_denial(uid, child.name)

        for step in Step:
            await run_with_slow_start([partial(make, child) for child in children if child.policy.step is step])

    async def _probe_quota(self, key: JobKey, probe: Create) -> None:
        """Raises ChildRejected if a quota has no room for the pod, which is not made. Any other refusal counts for
        nothing here: a limit on a single pod, for example, says nothing about the job's own."""
        try:
            await self.client.create(POD, dict(probe.build()), namespace=key.namespace, is_dry_run=True)
        except Denied as error:
            rejected = _reject(probe, error.message, status=error.status)
            if rejected.problem.reason == QUOTA_EXCEEDED:
                raise rejected from error
        except KubeError as error:
            log.info("%s: no answer about its quota: %s", key, error)

    async def _copy(self, key: JobKey, uid: str, copied: CopyConfigMap) -> None:
        """Looks for the copy first: once it exists, its source may change or be deleted."""
        existing = await self._find_config_map(key, copied.name)
        if existing is not None:
            if owner_uid(existing) != uid or existing.get("immutable") is not True:
                raise _reject_foreign(copied)
            return
        # Read when it is needed, and not watched: the operator keeps no copies of users' ConfigMaps.
        source = await self._find_config_map(key, copied.source)
        if source is None:
            raise _reject_source(key, copied, "not found; create it")
        data = source.get("data") or {}
        binary = source.get("binaryData") or {}
        missing = [name for name in copied.keys if name not in data and name not in binary]
        if missing:
            raise _reject_source(key, copied, f"has no key {missing[0]}; add it")
        keys = copied.keys or (*data, *binary)
        content = {
            "data": {name: data[name] for name in keys if name in data},
            "binaryData": {name: binary[name] for name in keys if name in binary},
        }
        await self._create(key, uid, Create(SOURCE, copied.name, lambda: {**copied.build(), **content}))

    async def _find_config_map(self, key: JobKey, name: str) -> Object | None:
        try:
            return await self.client.get(CONFIG_MAP, name, namespace=key.namespace)
        except Gone:
            return None

    async def _create(self, key: JobKey, uid: str, create: Create, *, parent: str = "") -> str:
        """Returns the object's uid; "" if it was not looked at. `parent`: uid of `create.owner`."""
        if create.policy.owned_by is OwnedBy.NAMESPACE:
            make = partial(self._make_shared, key, uid, create)
            return await self._shared.find(Place(key.namespace, create.name), make)
        body = dict(create.build())
        if create.policy.owned_by is OwnedBy.INPUT:
            owner = build_owner(CONFIG_MAP.api_version, CONFIG_MAP.kind, create.owner, parent)
            body["metadata"] = {**body["metadata"], "ownerReferences": [owner]}
        return await self._send(key, uid, create, body)

    async def _make_shared(self, key: JobKey, uid: str, create: Create) -> str:
        body = dict(create.build())
        # Read first, since a shared child exists in most passes.
        with contextlib.suppress(Gone):
            return uid_of(await self._adopt_existing(key, uid, create, _choose_kind(create, body), body))
        return await self._send(key, uid, create, body)

    async def _send(self, key: JobKey, uid: str, create: Create, body: Object) -> str:
        """Creates the object, unless it exists. Returns its uid; "" if it was not looked at."""
        policy = create.policy
        kind = _choose_kind(create, body)
        try:
            answer = await self.client.create(kind, body, namespace=key.namespace, is_strict=policy.is_strict)
        except Conflict as error:
            if error.reason != "AlreadyExists" or is_of_admission(error.message):
                # A webhook, or a quota under concurrent use, also answers 409; nothing was created.
                raise
            if policy.verify is Verify.NOTHING:
                return ""
            answer = await self._adopt_existing(key, uid, create, kind, body)
        except Gone as error:
            if is_of_admission(error.message):
                raise
            # 404 for a create means that the API server does not serve this version of the kind.
            if create.older is not None:
                return await self._create(key, uid, create.older)
            if kind.plural == POD_GROUP.plural:
                raise ChildRejected(_miss_scheduler(create, kind)) from error
            raise _reject(create, error.message, status=error.status) from error
        # Recorded at once, since the next pass may come before the watch delivers the object, and would create it
        # again.
        if policy.is_watched:
            if create.kind == POD.kind:
                record = self.cache.record_pod
            else:
                record = self.cache.record_workload
            record(answer)
        return uid_of(answer)

    async def _adopt_existing(self, key: JobKey, uid: str, create: Create, kind: Kind, body: Object) -> Object:
        """Returns the object of this name: our own, from an earlier request. Raises ChildRejected for a foreign one.

        The owner alone does not tell: whoever may create objects may name any owner.
        """
        existing = await self.client.get(kind, create.name, namespace=key.namespace)
        if create.policy.owned_by is OwnedBy.JOB and owner_uid(existing) != uid:
            raise _reject_foreign(create)
        if create.policy.verify is Verify.CONTENT and not _has_content(existing, body):
            why = f"a {create.kind} of this name exists with other content; delete it"
            raise _reject(create, why, reason=FOREIGN_OBJECT)
        return existing


def _choose_kind(create: Create, body: Object) -> Kind:
    return CHILDREN[create.kind].in_version(body.get("apiVersion", ""))


def _has_content(found: Object, body: Object) -> bool:
    """Returns whether an object has the data of ours, or leads where our Service would; versions may differ in the
    rest."""
    spec = found.get("spec") or {}
    wanted = body.get("spec") or {}
    # Fields that the API server fills in by default are not compared.
    return all(spec.get(field) == wanted.get(field) for field in ("selector", "clusterIP")) and all(
        (found.get(field) or None) == (body.get(field) or None) for field in ("data", "binaryData", "immutable")
    )


def _miss_scheduler(create: Create, kind: Kind) -> Problem:
    why = (
        f"the API server has no {kind.plural} of {kind.group}. Install the scheduler that "
        "spec.scheduling.gangScheduler names, or suspend the job and name another one; with Auto, suspend and resume it"
    )
    return Problem(SCHEDULER_MISSING, f"{create.kind} {create.name} was rejected: {why}")


def _reject(create: Create | CopyConfigMap, why: str, *, status: int = 0, reason: str = "") -> ChildRejected:
    """Describes why a child was rejected. `reason` is the one that the operator itself has; otherwise the API
    server's words tell it."""
    known = reason or choose_reason(create.kind, status, why)
    return ChildRejected(Problem(known, f"{create.kind} {create.name} was rejected: {why}"[:MAX_MESSAGE_CHARS]))


def _reject_foreign(child: Create | CopyConfigMap) -> ChildRejected:
    why = f"a {child.kind} of this name exists that this TrainJob does not own; delete it"
    return _reject(child, why, reason=FOREIGN_OBJECT)


def _reject_source(key: JobKey, copied: CopyConfigMap, what: str) -> ChildRejected:
    message = f"{copied.field}: ConfigMap {key.namespace}/{copied.source} {what}"
    return ChildRejected(Problem(SOURCE_NOT_FOUND, message))


def _resolve_pointer(obj: Object, pointer: str) -> object:
    value: object = obj
    for part in pointer.strip("/").split("/"):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def choose_reason(kind: str, status: int, message: str) -> str:
    """Returns the CamelCase reason why a child of this kind was rejected; its own message is kept next to it."""
    if any(text in message for text in WEBHOOK_TEXTS):
        return WEBHOOK_FAILED
    reason = read_admission_reason(kind, message)
    if reason:
        return reason
    is_invalid = status == 422 or (status == 400 and STRICT_TEXT in message)
    if kind == "Pod" and is_invalid:
        return POD_INVALID
    return CREATE_REFUSED
