"""A cache of the objects of one kind, kept up to date by list and watch.

Of each object only its record is kept, which `slim` makes as soon as the object is read. A list
replaces the view at once after its last page, so that deletions during a gap in the watch are
noticed. Silence beyond the limit counts as a broken watch. The response to the operator's own write
can be put into the view at once (`record_write`); the newest resourceVersion wins. A watch that the
API server refuses is tried again until it is allowed; what the view holds meanwhile is out of date.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from railhead.contract.callbacks import ignore
from railhead.json_object import Object
from railhead.kube.client import KubeClient, Scope
from railhead.kube.errors import Gone, KubeError, RetryAfter, is_refusal
from railhead.kube.kinds import Kind

log = logging.getLogger(__name__)

Record = TypeVar("Record")
OnChange = Callable[[Record | None, Record | None], None]
Key = tuple[str, str]  # namespace and name
# More than the responses that can still be late.
KEEP_AT_MOST = 10_000
# kopf's pauses for the other watch are about as short.
MAX_BACKOFF_SECONDS = 5.0


def version_of(obj: Object) -> int:
    """Returns the resourceVersion as a number (comparable within one kind since Kubernetes 1.35, always with etcd)."""
    return parse_version(str((obj.get("metadata") or {}).get("resourceVersion") or "0"))


def parse_version(text: str) -> int:
    if text.isdigit():
        return int(text)
    return 0


def key_of(obj: Object) -> Key:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def uid_of(obj: Object) -> str:
    return str(obj["metadata"].get("uid"))


class Tombstones:
    """Remembers deleted objects, so that a late response to our own write does not bring them back.

    Responses and the watch use two connections: the response to a create or delete may be processed after the watch
    has delivered DELETED. Storing the object then would keep it in the view forever, because no further event about it
    ever arrives. It keeps the newest uids with the resourceVersion of their deletion.
    """

    def __init__(self, keep: int = KEEP_AT_MOST) -> None:
        self._keep = keep
        self._versions: OrderedDict[str, int] = OrderedDict()

    def add(self, uid: str, version: int) -> None:
        self._versions[uid] = max(version, self._versions.pop(uid, 0))
        while len(self._versions) > self._keep:
            self._versions.popitem(last=False)

    def is_deleted_since(self, uid: str, version: int) -> bool:
        """Returns whether it was deleted at this version. A newer version is back: its labels match the selector
        again."""
        return version <= self._versions.get(uid, -1)


@dataclass(frozen=True, slots=True)
class CachedObject(Generic[Record]):
    """What the view keeps of one object."""

    uid: str
    version: int
    record: Record


class View(Generic[Record]):
    """A record of each object by (namespace, name); calls `on_change` on every change. No I/O."""

    def __init__(self, on_change: OnChange[Record], slim: Callable[[Object], Record]) -> None:
        self._entries: dict[Key, CachedObject[Record]] = {}
        self._on_change = on_change
        self._slim = slim
        self._tombstones = Tombstones()
        self._listed = 0

    def items(self) -> Iterable[Record]:
        return [entry.record for entry in self._entries.values()]

    def read(self, obj: Object) -> tuple[Key, CachedObject[Record]]:
        """Returns what would be kept of the object; of a known version, the same as is kept already."""
        key = key_of(obj)
        uid = uid_of(obj)
        version = version_of(obj)
        known = self._entries.get(key)
        if known is not None and (known.uid, known.version) == (uid, version):
            return key, known
        return key, CachedObject(uid, version, self._slim(obj))

    def put(self, obj: Object) -> None:
        """Stores an object, unless a newer version or its deletion is already known."""
        # An older version is in the last list already, or was deleted by then.
        if version_of(obj) > self._listed:
            self._put(*self.read(obj))

    def _put(self, key: Key, new: CachedObject[Record]) -> None:
        if self._tombstones.is_deleted_since(new.uid, new.version):
            return
        old = self._entries.get(key)
        if old is not None and (new.version < old.version or (new.uid, new.version) == (old.uid, old.version)):
            return
        self._entries[key] = new
        self._on_change(old.record if old is not None else None, new.record)

    def drop(self, obj: Object) -> None:
        """Forgets a deleted object, unless its name belongs to a newer one."""
        self._drop(key_of(obj), uid_of(obj), version=version_of(obj))

    def _drop(self, key: Key, uid: str, *, version: int) -> None:
        self._tombstones.add(uid, version)
        old = self._entries.get(key)
        if old is None or old.uid != uid:
            return
        del self._entries[key]
        self._on_change(old.record, None)

    def replace(self, listed: Mapping[Key, CachedObject[Record]], *, version: int) -> None:
        """Applies a complete list of the given version at once: drops objects missing from it, except newer ones."""
        for key, old in list(self._entries.items()):
            if key not in listed and old.version <= version:
                self._drop(key, old.uid, version=version)
        for key, new in listed.items():
            self._put(key, new)
        self._listed = max(self._listed, version)


class WatchState:
    """How the watch of one kind stands, in one namespace or (None) in all.

    Attributes:
        delivered_at: when an event, a bookmark or a part of a list arrived last, by the monotonic clock; at first, when
            this watch was set up.
        on_return: called when the API server lists the objects again that it refused before.
        on_refusal: called when it begins to refuse them.
    """

    def __init__(self, kind: Kind, namespace: str | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.kind = kind
        self.namespace = namespace
        self.is_refused = False
        self.on_return: Callable[[], None] = ignore
        self.on_refusal: Callable[[], None] = ignore
        self._is_optional = False
        self._has_answer = True
        self._monotonic = monotonic
        self.delivered_at = monotonic()

    def mark_optional(self, on_change: Callable[[], None]) -> None:
        """Allows for a cluster that lacks the kind: until its first list it counts as refused. `on_change` is called
        whenever the objects begin or cease to be listed."""
        self._is_optional = self.is_refused = True
        self._has_answer = False
        self.on_return = self.on_refusal = on_change

    @property
    def place(self) -> str:
        return f"{self.kind.plural} in {'namespace ' + self.namespace if self.namespace else 'all namespaces'}"

    @property
    def age(self) -> float:
        """Returns seconds since it delivered something. The API server sends a bookmark each minute."""
        return self._monotonic() - self.delivered_at

    def deliver(self) -> None:
        """Notes the time: an event, a bookmark or a part of a list has arrived."""
        self.delivered_at = self._monotonic()

    def refuse(self, error: KubeError) -> None:
        """Records that the API server answered 403 or 404: the namespace or the right to watch it is gone."""
        was_refused = self.is_refused and self._has_answer
        self.is_refused = self._has_answer = True
        if self._is_optional:
            log.log(logging.DEBUG if was_refused else logging.WARNING, "cannot watch %s: %s", self.place, error)
        elif not was_refused:
            log.error("cannot watch %s, whose jobs are not managed meanwhile: %s; trying again", self.place, error)
        if not was_refused:
            self.on_refusal()

    def accept(self) -> None:
        """Records that the API server listed the objects."""
        was_refused, self.is_refused = self.is_refused, False
        self._has_answer = True
        if was_refused:
            log.info("watching %s%s", self.place, "" if self._is_optional else " again")
            self.on_return()


class Informer(Generic[Record]):
    """Keeps a `View` up to date. `run()` runs until cancelled, or until the API server does not know the user for long.

    Attributes:
        answered: set after the first list, or when the API server refuses it.
    """

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        *,
        on_change: OnChange[Record],
        slim: Callable[[Object], Record],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        refusal_pause: float = 0.0,
        most_unauthorized: int | None = None,
    ) -> None:
        """`refusal_pause`: seconds from a refusal to the next try, at least; `most_unauthorized`: so many answers 401
        in a row end `run()`, None = no number does."""
        self._sleep = sleep
        self._most_unauthorized = most_unauthorized
        self._refusal_pause = refusal_pause
        self.namespace = scope.namespace
        self._client = client
        self._scope = scope
        self.view = View(on_change, slim)
        self.state = WatchState(scope.kind, scope.namespace)
        self.is_synced = False
        self.answered = asyncio.Event()

    @property
    def is_current(self) -> bool:
        """Returns whether the view holds the objects as they are now."""
        return self.is_synced and not self.state.is_refused

    def items(self) -> Iterable[Record]:
        return self.view.items()

    def record_write(self, obj: Object) -> None:
        """Stores the API server's response to our own write."""
        self.view.put(obj)

    async def run(self) -> None:
        """Lists, watches, and lists again whenever the watch cannot resume from its last version. Raises KubeError."""
        failures = unauthorized = 0
        version: str | None = None
        while True:
            seen = 0
            try:
                if version is None:
                    version = await self._list()
                async for event in self._client.watch(self._scope, resource_version=version):
                    seen = seen + 1
                    failures = 0
                    unauthorized = 0
                    version = str(event["object"]["metadata"]["resourceVersion"])
                    self._take(event)
                # The API server sends bookmarks; a watch without any did not reach it.
                if not seen:
                    raise RetryAfter(0, "WatchEmpty", "the watch ended without an event")
            except KubeError as error:
                failures += 1
                unauthorized = unauthorized + 1 if error.status == 401 else 0
                if unauthorized and unauthorized == self._most_unauthorized:
                    raise
                if is_refusal(error):
                    self.state.refuse(error)
                    self.answered.set()
                if is_refusal(error) or isinstance(error, Gone):
                    version = None
                # The first list after an expired watch need not wait.
                if failures > 1 or not isinstance(error, Gone):
                    await self._pause(error, failures)

    async def _pause(self, error: KubeError, failures: int) -> None:
        requested = error.seconds if isinstance(error, RetryAfter) else None
        backoff = min(MAX_BACKOFF_SECONDS, 0.2 * 2 ** min(failures, 8))
        delay = requested or backoff * random.uniform(0.5, 1.0)
        if is_refusal(error):
            delay = max(delay, self._refusal_pause)
        # a refusal was logged when it began
        if self.state.is_refused:
            level = logging.DEBUG
        else:
            level = logging.WARNING
        log.log(level, "watch of %s: %s; retrying in %.1f s", self._scope.kind.plural, error, delay)
        await self._sleep(delay)

    async def _list(self) -> str:
        listed = await self._client.list_each(self._scope, self._read)
        self.view.replace(dict(listed.items), version=parse_version(listed.version))
        self.is_synced = True
        self.answered.set()
        self.state.deliver()
        self.state.accept()
        return listed.version

    def _read(self, obj: Object) -> tuple[Key, CachedObject[Record]]:
        self.state.deliver()
        return self.view.read(obj)

    def _take(self, event: Object) -> None:
        self.state.deliver()
        kind = event.get("type")
        obj = event["object"]
        if kind == "DELETED":
            self.view.drop(obj)
        elif kind in ("ADDED", "MODIFIED"):
            self.view.put(obj)
