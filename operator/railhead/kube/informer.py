"""A cache of all objects of one kind, kept up to date by list and watch.

A list replaces the view, so that deletions during a gap in the watch are noticed. Silence
beyond the limit counts as a broken watch. The response to the operator's own write can be put
into the view at once (`record_write`); the newest resourceVersion wins.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypedDict

from railhead.kube.client import KubeClient
from railhead.kube.errors import Gone, KubeError, RetryAfter
from railhead.kube.kinds import Kind
from railhead.kube.tombstones import Tombstones
from railhead.kube.types import Object

log = logging.getLogger(__name__)

OnChange = Callable[[Object | None, Object | None], None]
MAX_BACKOFF_SECONDS = 15.0


def version_of(obj: Object) -> int:
    """resourceVersion as a number (comparable within one kind since Kubernetes 1.35, always with etcd)."""
    text = str((obj.get("metadata") or {}).get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0


def key_of(obj: Object) -> tuple[str, str]:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def drop_nothing(obj: Object) -> Object:
    return obj


class View:
    """The objects by (namespace, name); calls `on_change` on every change. No I/O."""

    def __init__(self, on_change: OnChange, slim: Callable[[Object], Object] = drop_nothing) -> None:
        self._objects: dict[tuple[str, str], Object] = {}
        self._on_change = on_change
        self._slim = slim
        self._tombstones = Tombstones()
        self._listed = 0

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get((namespace, name))

    def items(self) -> Iterable[Object]:
        return list(self._objects.values())

    def put(self, obj: Object) -> None:
        """Stores an object, unless a newer version or its deletion is already known."""
        if version_of(obj) > self._listed:  # else the last list contains it, or it was deleted by then
            self._put(obj)

    def _put(self, obj: Object) -> None:
        if self._tombstones.is_deleted_since(str(obj["metadata"].get("uid")), version_of(obj)):
            return
        old = self._objects.get(key_of(obj))
        is_same = old is not None and old["metadata"].get("uid") == obj["metadata"].get("uid")
        if old is not None and version_of(obj) <= version_of(old) and (is_same or version_of(obj) < version_of(old)):
            return
        new = self._slim(obj)
        self._objects[key_of(obj)] = new
        self._on_change(old, new)

    def drop(self, obj: Object) -> None:
        """Forgets a deleted object, unless its name belongs to a newer one."""
        self._drop(obj, version=version_of(obj))

    def _drop(self, obj: Object, *, version: int) -> None:
        self._tombstones.add(str(obj["metadata"].get("uid")), version)
        old = self._objects.get(key_of(obj))
        if old is None or old["metadata"].get("uid") != obj["metadata"].get("uid"):
            return
        del self._objects[key_of(obj)]
        self._on_change(old, None)

    def replace(self, objects: list[Object], *, version: int) -> None:
        """Applies a list of the given version: drops objects missing from it, except newer ones."""
        listed = {key_of(obj) for obj in objects}
        for key, old in list(self._objects.items()):
            if key not in listed and version_of(old) <= version:
                self._drop(old, version=version)
        for obj in objects:
            self._put(obj)
        self._listed = max(self._listed, version)


class Scope(TypedDict):
    """Selects objects of a kind; arguments of the client's `list` and `watch`."""

    namespace: str | None
    label_selector: str
    field_selector: str


class Informer:
    """Keeps a `View` up to date. `run()` runs until cancelled."""

    def __init__(
        self,
        client: KubeClient,
        kind: Kind,
        *,
        on_change: OnChange,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        slim: Callable[[Object], Object] = drop_nothing,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self.namespace = namespace
        self._client = client
        self._kind = kind
        self._scope = Scope(namespace=namespace, label_selector=label_selector, field_selector=field_selector)
        self.view = View(on_change, slim)
        self._synced = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def get(self, namespace: str, name: str) -> Object | None:
        return self.view.get(namespace, name)

    def items(self) -> Iterable[Object]:
        return self.view.items()

    def record_write(self, obj: Object) -> None:
        """Stores the API server's response to our own write."""
        self.view.put(obj)

    async def run(self) -> None:
        """Lists, watches, and lists again whenever the watch cannot resume from its last version."""
        failures = 0
        version: str | None = None
        while True:
            seen = 0
            try:
                if version is None:
                    version = await self._list()
                async for event in self._client.watch(self._kind, resource_version=version, **self._scope):
                    seen, failures = seen + 1, 0
                    version = str(event["object"]["metadata"]["resourceVersion"])
                    self._take(event)
                if not seen:  # the API server sends bookmarks; a watch without any did not reach it
                    raise RetryAfter(0, "WatchEmpty", "the watch ended without an event")
            except Gone as error:
                version = None
                failures += 1
                if failures > 1:  # the first list after an expired watch need not wait
                    await self._pause(error, failures)
            except KubeError as error:
                failures += 1
                await self._pause(error, failures)

    async def _pause(self, error: KubeError, failures: int) -> None:
        requested = error.seconds if isinstance(error, RetryAfter) else None
        delay = requested or min(MAX_BACKOFF_SECONDS, 0.2 * 2 ** min(failures, 8)) * random.uniform(0.5, 1.0)
        log.warning("watch of %s: %s; retrying in %.1f s", self._kind.plural, error, delay)
        await self._sleep(delay)

    async def _list(self) -> str:
        page = await self._client.list(self._kind, **self._scope)
        version = str(page["metadata"]["resourceVersion"])
        self.view.replace(page.get("items") or [], version=int(version) if version.isdigit() else 0)
        self._synced.set()
        return version

    def _take(self, event: Object) -> None:
        kind, obj = event.get("type"), event["object"]
        if kind == "DELETED":
            self.view.drop(obj)
        elif kind in ("ADDED", "MODIFIED"):
            self.view.put(obj)
