"""Verbs on plain dicts; `transport.py` sends the requests.

Never deserialises into models: the hot path is `bodies.decode` only.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import aiohttp

from railhead.contract.callbacks import always
from railhead.json_object import Object
from railhead.kube.bodies import Body, decode, keep_all
from railhead.kube.clock import ServerClock
from railhead.kube.errors import Gone, RetryAfter, classify_response
from railhead.kube.kinds import Kind
from railhead.kube.pages import PAGE_SIZE, PageTooLarge, halve, read_page
from railhead.kube.transport import Transport, open_transport

log = logging.getLogger(__name__)

ONE_ANSWER = aiohttp.ClientTimeout(total=30)
# Each is logged once; their texts may contain names.
MOST_WARNINGS = 1000
# A watch without an event or bookmark for that long is dead.
SILENCE_LIMIT_SECONDS = 75
STREAM_SILENT = "StreamSilent"
# Without compression, as in Kubernetes' own controllers: it costs the API server more than the network gains.
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "railhead"}
NO_ANSWER = (aiohttp.ClientError, TimeoutError, OSError)
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
JSON = "application/json"
METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}  # other verbs only read

Item = TypeVar("Item")


@dataclass(frozen=True)
class Scope:
    """The objects of a kind that a list or a watch selects; in all namespaces, unless it names one."""

    kind: Kind
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    def path(self, query: dict[str, str]) -> str:
        """Returns the path of a list or watch with this query."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return _with_query(self.kind.path(namespace=self.namespace), {**selectors, **query})


class Listed(NamedTuple, Generic[Item]):
    """What is kept of a list; `version` is the first page's resourceVersion, to start a watch from."""

    version: str
    items: list[Item]


@dataclass(frozen=True)
class Request:
    """A request to the API server.

    Attributes:
        verb: the verb of the API, with the subresource: create, patch/status, list, ...
        plural: the resource, for metrics.
        path: the path with its query.
    """

    verb: str
    plural: str
    path: str
    body: Body | None = None
    content_type: str = JSON
    accept: str = JSON

    @property
    def method(self) -> str:
        return METHODS.get(self.verb.partition("/")[0], "GET")


class RequestLabels(NamedTuple):
    """Verb and resource of a request, and the status of its response: 0 when there was none."""

    verb: str
    resource: str
    code: int


class KubeClient:
    """A client for the API server on top of one transport.

    Attributes:
        answers: counts of responses by request; for metrics.
        clock: the API server's time, from its responses.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        may_write: Callable[[], bool] = always,
        clock: ServerClock | None = None,
        answers: Counter[RequestLabels] | None = None,
        hides_values: bool = False,
    ) -> None:
        """`hides_values`: errors do not quote the values of objects, for a client whose errors others read."""
        self._transport = transport
        self._may_write = may_write
        self._hides_values = hides_values
        self.clock = clock or ServerClock(time.monotonic, partial(datetime.now, UTC))
        self.answers: Counter[RequestLabels] = Counter() if answers is None else answers
        self._warnings: set[tuple[str, str]] = set()  # about requests (deprecated fields, for example)

    def fenced(self, may_write: Callable[[], bool]) -> KubeClient:
        """Shares transport, clock and counts with this one; sends a write only if `may_write` returns True right
        before it."""
        return KubeClient(
            self._transport,
            may_write=may_write,
            clock=self.clock,
            answers=self.answers,
            hides_values=self._hides_values,
        )

    async def create(
        self,
        kind: Kind,
        body: Object,
        *,
        namespace: str | None = None,
        name: str = "",
        subresource: str = "",
        is_strict: bool = False,
        is_dry_run: bool = False,
    ) -> Object:
        """Creates an object. `is_strict`: a field that the API server does not know is an error, which names its
        path; `is_dry_run`: it is only checked, not stored."""
        path = kind.path(namespace=namespace, name=name, subresource=subresource)
        path = _with_query(
            path, {"fieldValidation": "Strict" if is_strict else "", "dryRun": "All" if is_dry_run else ""}
        )
        return await self._call(Request(_verb("create", subresource), kind.plural, path, body))

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object:
        return await self._call(Request("get", kind.plural, kind.path(namespace=namespace, name=name)))

    async def list(self, scope: Scope) -> list[Object]:
        """Returns all objects, as the API server sends them; for a few objects."""
        return (await self.list_each(scope, keep_all)).items

    async def ask_list(self, kind: Kind, namespace: str | None) -> None:
        """Lists one object, to learn whether the API server lists this kind. Raises KubeError."""
        path = Scope(kind, namespace).path({"limit": "1"})
        await self._call(Request("list", kind.plural, path, accept=METADATA_ONLY))

    async def list_each(
        self, scope: Scope, read: Callable[[Object], Item], *, metadata_only: bool = False
    ) -> Listed[Item]:
        """Returns what `read` keeps of each object. It is called page by page, and no page is kept during the next
        request, nor read further than `pages` allows."""
        accept = METADATA_ONLY if metadata_only else JSON
        items: list[Item] = []
        version = token = ""
        size = PAGE_SIZE
        while True:
            path = scope.path({"limit": str(size), "continue": token})
            request = Request("list", scope.kind.plural, path, accept=accept)
            try:
                page = await self._call(request, page_size=size)
            except PageTooLarge:
                size = halve(size)
                continue
            if not _has_version(page):
                raise RetryAfter(0, "NotAList", "a list without a resourceVersion")
            metadata = page["metadata"]
            version = version or str(metadata["resourceVersion"])
            token = metadata.get("continue") or ""
            items.extend(read(item) for item in page.get("items") or [])
            if not token:
                return Listed(version, items)
            del page

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
        field_manager: str = "",
        is_strategic: bool = False,
        is_strict: bool = False,
    ) -> Object:
        """Patches the object: a list is a JSON Patch, an object is merged, by Kubernetes' rules if `is_strategic`;
        `is_strict` as for `create`."""
        path = kind.path(namespace=namespace, name=name, subresource=subresource)
        path = _with_query(path, {"fieldManager": field_manager, "fieldValidation": "Strict" if is_strict else ""})
        if isinstance(body, list):
            type_ = "json"
        elif is_strategic:
            type_ = "strategic-merge"
        else:
            type_ = "merge"
        content_type = f"application/{type_}-patch+json"
        return await self._call(Request(_verb("patch", subresource), kind.plural, path, body, content_type))

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
    ) -> Object:
        """Deletes the object; with a uid or a version, only the object that has it, else raises Conflict."""
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        preconditions = {"uid": uid, "resourceVersion": version}
        if any(preconditions.values()):
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._call(Request("delete", kind.plural, kind.path(namespace=namespace, name=name), options))

    async def watch(self, scope: Scope, *, resource_version: str) -> AsyncIterator[Object]:
        """Yields events from a resource version on, bookmarks included, until the server closes the watch.

        Raises:
            Gone: the version is too old; list again.
            RetryAfter: no response, or silence beyond the limit.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": "290",
        }
        try:
            async with self._open_stream(Request("watch", scope.kind.plural, scope.path(query))) as response:
                async for line in _lines(response):
                    event = _parse_event(line)
                    if event.get("type") == "ERROR":
                        status = event["object"]
                        raise classify_response(int(status.get("code") or 500), json.dumps(status).encode())
                    yield event
        except (*NO_ANSWER, ValueError) as error:
            raise RetryAfter(0, "WatchBroken", f"{type(error).__name__}: {error}") from error

    async def stream_lines(self, path: str, *, with_rest: bool) -> AsyncIterator[bytes]:
        """Yields the lines of any path as they arrive (logs); with_rest: at the end also a line without its newline.

        Raises:
            RetryAfter: no response, or a broken connection, whose incomplete line is dropped; with the reason
                STREAM_SILENT if there was no line for long, because the connection may be dead then.
        """
        try:
            async with self._open_stream(Request("watch", "path", path)) as response:
                async for line in _lines(response, with_rest=with_rest):
                    yield line
        except TimeoutError as error:
            raise RetryAfter(0, STREAM_SILENT, f"no line for {SILENCE_LIMIT_SECONDS} s") from error
        except NO_ANSWER as error:
            raise RetryAfter(0, "StreamBroken", f"{type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def _open_stream(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """Opens a response that the caller may leave before its end, and raises what a refusal means."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_LIMIT_SECONDS)
        opening = self._transport.open_stream(request.path, headers=_build_headers(request), timeout=timeout)
        response = await self._receive(request, opening)
        try:
            if response.status >= 400:
                raise classify_response(
                    response.status, await response.read(), retry_after=response.headers.get("Retry-After")
                )
            yield response
        finally:
            response.close()

    async def get_object(self, path: str) -> Object:
        """Returns the JSON object at any path (for /version, discovery, OpenAPI)."""
        return await self._call(Request("get", "path", path))

    async def serves(self, kind: Kind) -> bool:
        """Returns whether the API server has the kind, by its discovery document, which every authenticated user may
        read. It may have the group's version without the kind. Raises KubeError."""
        try:
            found = await self.get_object(f"/apis/{kind.api_version}")
        except Gone:
            return False
        return any(each["name"] == kind.plural for each in found["resources"])

    async def _call(self, request: Request, *, page_size: int = 1) -> Object:
        """Returns the answer. Raises PageTooLarge for a list of at most `page_size` objects."""
        if request.method != "GET" and not self._may_write():
            raise RetryAfter(0, "NotLeading", "this operator is not the leader")
        headers = _build_headers(request)
        sending = self._transport.send(
            request.method, request.path, headers=headers, body=request.body, timeout=ONE_ANSWER
        )
        response = await self._receive(request, sending)
        data = await _read(response, page_size=page_size)
        if response.status >= 400:
            retry_after = response.headers.get("Retry-After")
            raise classify_response(response.status, data, retry_after=retry_after, hides_values=self._hides_values)
        return _parse_object(response.status, data)

    async def _receive(self, request: Request, sending: Awaitable[aiohttp.ClientResponse]) -> aiohttp.ClientResponse:
        """Counts the response, and takes the time and the warnings from its headers."""
        try:
            response = await sending
        except NO_ANSWER as error:
            self.answers[RequestLabels(request.verb, request.plural, 0)] += 1
            raise RetryAfter(0, "NoAnswer", f"{type(error).__name__}: {error}") from error
        self.answers[RequestLabels(request.verb, request.plural, response.status)] += 1
        self.clock.observe(response.headers.get("Date"))
        for header in response.headers.getall("Warning", ()):  # 299 - "text"
            warning = (f"{request.verb} {request.plural}", header)
            if warning not in self._warnings and len(self._warnings) < MOST_WARNINGS:
                self._warnings.add(warning)
                log.warning("the API server warns about %s: %s", *warning)
        return response


def _build_headers(request: Request) -> dict[str, str]:
    return {"Accept": request.accept, "Content-Type": request.content_type, **HEADERS}


def _verb(verb: str, subresource: str) -> str:
    if subresource:
        return f"{verb}/{subresource}"
    return verb


async def _read(response: aiohttp.ClientResponse, *, page_size: int) -> bytes:
    try:
        async with response:
            return await read_page(response, size=page_size)
    except NO_ANSWER as error:
        raise RetryAfter(0, "NoAnswer", f"{type(error).__name__}: {error}") from error


def _parse_object(status: int, data: bytes) -> Object:
    """Parses a successful response. One that is not a JSON object comes from a proxy in between, not from the API
    server."""
    try:
        values = decode(data)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise RetryAfter(status, "NotAnObject", data[:100].decode(errors="replace"))
    return values


def _parse_event(line: bytes) -> Object:
    """Raises ValueError when the line is not an event: that comes from a proxy in between, too."""
    event: Object = decode(line)
    if not _is_event(event):
        raise ValueError(f"not an event: {line[:100].decode(errors='replace')}")
    return event


def _is_event(event: object) -> bool:
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        return False
    return event.get("type") == "ERROR" or _has_version(event["object"])


def _has_version(obj: Object) -> bool:
    return isinstance(obj.get("metadata"), dict) and "resourceVersion" in obj["metadata"]


async def _lines(response: aiohttp.ClientResponse, *, with_rest: bool = False) -> AsyncIterator[bytes]:
    """Yields complete lines, including those longer than the reader's buffer; at the end also an incomplete one, if
    wanted."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest and with_rest:
        yield rest


def _with_query(path: str, query: dict[str, str]) -> str:
    used = {key: value for key, value in query.items() if value}
    if used:
        return f"{path}?{urlencode(used)}"
    return path


@asynccontextmanager
async def connect(
    kubeconfig: str | None = None, context: str | None = None, *, hides_values: bool = False
) -> AsyncIterator[KubeClient]:
    """Connects with the kubeconfig and its context, or with the pod's own service account.

    Raises:
        ConfigException: neither is available.
    """
    async with open_transport(kubeconfig, context) as transport:
        yield KubeClient(transport, hides_values=hides_values)
