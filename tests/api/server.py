"""A minimal HTTP client for the API server of the test's control plane, fast enough for hundreds of tests."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from railhead.local.control_plane import ControlPlane

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
IDLE_SECONDS = 30  # an API server closes a connection idle for 90 s, and the next request fails


@dataclass(frozen=True)
class Answer:
    """Status code and body of one request."""

    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class ApiServer:
    """One persistent connection, as the administrator, which the threads of a test share."""

    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(plane.pki / "ca.crt"))
        context.load_cert_chain(plane.pki / "admin.crt", plane.pki / "admin.key")
        address = urlsplit(plane.server)
        self._connection = http.client.HTTPSConnection(str(address.hostname), address.port, context=context, timeout=30)
        self._used = time.monotonic()
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        user: str = "",
        **query: str,
    ) -> Answer:
        """`user`: who asks, instead of the administrator."""
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {"Content-Type": content_type, "Accept": accept, **({"Impersonate-User": user} if user else {})}
        with self._lock:
            response, text = self._send(method, target, json.dumps(body) if body is not None else None, headers)
        is_json = response.headers.get_content_type() == JSON  # an unknown path answers in plain text
        return Answer(response.status, json.loads(text) if is_json else {"message": text.decode()})

    def _send(
        self, method: str, target: str, body: str | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()  # the next request opens it again
        try:
            self._connection.request(method, target, body, headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # or every later request would fail for this one
            raise
        self._used = time.monotonic()
        return response, text

    def list(self, path: str, **query: str) -> list[dict[str, Any]]:
        """The items of a list. Raises AssertionError if the request is rejected."""
        answer = self.request("GET", path, **query)
        assert answer.status == 200, answer.message
        found: list[dict[str, Any]] = answer.body["items"]
        return found

    def watch(self, path: str, *, since: str, seconds: int) -> Sequence[dict[str, Any]]:
        """The events after this version, until the API server ends the watch."""
        query = urlencode({"watch": "1", "resourceVersion": since, "timeoutSeconds": str(seconds)})
        response, text = self._send("GET", f"{path}?{query}", None, {})
        assert response.status == 200, text
        return [json.loads(line) for line in text.splitlines()]

    def close(self) -> None:
        self._connection.close()
