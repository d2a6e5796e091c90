"""Deletes what a plan names: each delete is tried, whatever becomes of the others, and one that the API server denies
becomes a fact of the next pass."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from railhead.api.names import MANAGED_BY
from railhead.api.parsed_spec import JobKey
from railhead.controller.observe import owner_uid
from railhead.controller.refusals import Refusals, Subject
from railhead.controller.shared_children import Place, SharedChildren
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Gone, KubeError, is_changed, is_of_admission
from railhead.kube.informer import uid_of
from railhead.kube.kinds import CHILDREN, POD, Kind
from railhead.planning.observed import Denial, DeniedVerb, Remove
from railhead.planning.plan import Delete
from railhead.together import run_with_slow_start

log = logging.getLogger(__name__)

ERRORS_IN_A_ROW = 3  # of different objects, until the API server is asked whether it is there
Request = Callable[[], Awaitable[None]]


class DeleteCache(Protocol):
    """Caches what the API server answers to deletes."""

    def record_pod(self, raw: Object) -> None: ...
    def record_denial(self, key: JobKey, uid: str, denial: Denial) -> None: ...
    def forget_denial(self, uid: str, name: str) -> None: ...


@dataclass
class Deleter:
    """Deletes objects of jobs.

    Attributes:
        shared: the shared children that exist.
    """

    client: KubeClient
    cache: DeleteCache
    refusals: Refusals
    shared: SharedChildren

    async def delete_all(self, key: JobKey, uid: str, deletes: Sequence[Delete], removes: Sequence[Remove]) -> int:
        """Tries every delete, and returns how many of them the API server denied: one that fails must not keep the
        others from releasing their GPUs. Raises the first error at the end, and at once if the API server is away."""
        denied = list[str]()
        errors = list[KubeError]()
        in_a_row = 0

        async def try_one(kind: str, name: str, delete: Request, remove: Remove | None = None) -> None:
            nonlocal in_a_row
            try:
                if await self.attempt(key, uid, kind, name, delete, remove=remove):
                    denied.append(name)
                in_a_row = 0
            except KubeError as error:
                errors.append(error)
                in_a_row += 1
                is_doubtful = in_a_row >= ERRORS_IN_A_ROW
                # Status 0: no answer at all. The rest of the deletes would each wait for their timeout.
                if error.status == 0 or (is_doubtful and not await self.refusals.answers(key)):
                    raise

        await run_with_slow_start(
            [
                *(partial(try_one, "Pod", d.name, partial(self._delete, key, d)) for d in deletes),
                *(partial(try_one, r.kind, r.name, partial(self._remove, key, uid, r), r) for r in removes),
            ]
        )
        if errors:
            raise errors[0]
        return len(denied)

    async def attempt(
        self,
        key: JobKey,
        uid: str,
        kind: str,
        name: str,
        call: Request,
        *,
        verb: DeniedVerb = "delete",
        remove: Remove | None = None,
    ) -> bool:
        """Returns whether the API server denied it, for example by a webhook; the next pass then reports it."""
        subject = Subject(uid, verb, kind, name)
        try:
            await call()
        except KubeError as error:
            # What is no refusal may succeed when it is tried again, so the pass fails and is retried.
            if not await self.refusals.judge(key, subject, error):
                raise
            log.warning("%s: may not %s %s %s: %s", key, verb, kind, name, error.message)
            denial = Denial(kind, name, error.message, tries=1, at=self.client.clock.now(), verb=verb, remove=remove)
            self.cache.record_denial(key, uid, denial)
            return True
        self.refusals.forget(subject)
        self.cache.forget_denial(uid, name)
        return False

    async def _delete(self, key: JobKey, delete: Delete) -> None:
        try:
            answer = await self.client.delete(POD, delete.name, namespace=key.namespace, uid=delete.uid)
        except (Gone, Conflict) as error:
            if is_changed(error):
                # Already gone, or the name belongs to another pod.
                return
            raise
        if answer.get("kind") == "Pod":
            self.cache.record_pod(answer)

    async def _remove(self, key: JobKey, uid: str, remove: Remove) -> None:
        # Before the request: another job may ask for the same child while it is being deleted.
        self.shared.forget(Place(key.namespace, remove.name))
        # A PodGroup may have been made by an earlier version of the API server, under another version or group.
        for api_version in remove.api_versions or ("",):
            await self._remove_one(key, uid, remove, CHILDREN[remove.kind].in_version(api_version))

    async def _remove_one(self, key: JobKey, uid: str, remove: Remove, kind: Kind) -> None:
        """Deletes the very object that was looked at, and only one of our own."""
        # A 404 may also come from a proxy in front of the API server.
        for _ in range(2):
            try:
                # Removes carry a name only, which anyone else may have used.
                found = await self.client.get(kind, remove.name, namespace=key.namespace)
                labels = found["metadata"].get("labels") or {}
                if remove.is_shared:
                    is_ours = labels.get(MANAGED_BY) == "railhead"
                else:
                    is_ours = owner_uid(found) == uid
                if not is_ours:
                    log.warning("%s/%s is not ours and stays: %s", key.namespace, remove.name, remove.kind)
                    return
                if remove.version and found["metadata"]["resourceVersion"] != remove.version:
                    log.info("%s: %s %s has changed since it was observed", key, remove.kind, remove.name)
                    # The watch brings the change, and another pass.
                    return
                await self.client.delete(
                    kind, remove.name, namespace=key.namespace, uid=uid_of(found), version=remove.version
                )
                return
            except Gone as error:
                if is_of_admission(error.message):
                    raise
            except Conflict as error:
                if not is_changed(error):
                    raise
