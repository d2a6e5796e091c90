"""A client's requests, from the API server's audit log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from railhead.local.install import NAMESPACE

# Stages: a watch is logged when it starts, everything else once it is answered.
GROUPS = (
    "",
    "railhead.dev",
    "authentication.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "kueue.x-k8s.io",
    "networking.k8s.io",
    "scheduling.k8s.io",
    "scheduling.x-k8s.io",
    "scheduling.volcano.sh",
)
TEAM_NAMESPACE = "team-operator"  # of an operator for one namespace
LABEL_NAMESPACE = "label-operator"  # of an operator that selects jobs by labels
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "users": [
                f"system:serviceaccount:{n}:railhead-operator" for n in (NAMESPACE, TEAM_NAMESPACE, LABEL_NAMESPACE)
            ],
            "resources": [{"group": group} for group in GROUPS],
        },
        {"level": "None"},
    ],
}
WRITES = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True)
class Request:
    """One request of the operator.

    Attributes:
        resource: with its subresource, for example `trainjobs/status`.
        manager: the field manager that the request names.
        code: the response's status code.
        user: who sent it.
        is_forbidden: by RBAC; admission rejects with the same code.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    manager: str
    code: int
    user: str
    is_forbidden: bool


class AuditLog:
    """The log of one API server; each line is read once, for tests that wait ask many times."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._policy, self._log = folder / "policy.json", folder / "audit.log"
        self._policy.write_text(json.dumps(POLICY))
        self._read, self._requests = 0, list[Request]()

    @property
    def api_server_options(self) -> Sequence[str]:
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}")

    def requests(self, namespace: str | None = None) -> list[Request]:
        """All requests so far, or those of one namespace, in the order of their answers."""
        if self._log.exists():
            with self._log.open("rb") as log:
                log.seek(self._read)
                for line in log:
                    if not line.endswith(b"\n"):
                        break  # the API server is still writing it
                    self._read += len(line)
                    event = json.loads(line)
                    if event["stage"] in ("ResponseComplete", "ResponseStarted"):
                        self._requests.append(_parse(event))
        return [request for request in self._requests if namespace in (None, request.namespace)]


def _parse(event: dict[str, Any]) -> Request:
    place = event["objectRef"]
    query = parse_qs(urlsplit(event["requestURI"]).query)
    parts = (place["resource"], place.get("subresource"))
    return Request(
        verb=event["verb"],
        group=place.get("apiGroup", ""),
        resource="/".join(part for part in parts if part),
        namespace=place.get("namespace", ""),
        name=place.get("name", ""),
        manager=(query.get("fieldManager") or [""])[0],
        code=event.get("responseStatus", {}).get("code", 0),
        user=event["user"]["username"],
        is_forbidden=event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid",
    )
