"""A cluster whose API server answers `railhead doctor` from a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from railhead._version import __version__
from railhead.api import names
from railhead.api.crd import build_crd
from railhead.api.served import PATH
from railhead.json_object import Object
from railhead.kube.client import KubeClient, Listed, Scope
from railhead.kube.errors import Denied, Gone, KubeError
from railhead.kube.kinds import CRD, LOCAL_QUEUE, NAMESPACE, Kind
from tests.unit.client.jobs import NOW, make_running
from tests.unit.kube.no_transport import NoTransport

LABELS = {"app.kubernetes.io/version": __version__}


def make_object(name: str, *, namespace: str = "", **parts: Any) -> Object:
    """Returns an object; `labels` and `annotations` go into its metadata."""
    metadata = {key: parts.pop(key) for key in ("labels", "annotations") if key in parts}
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, **parts}


@cache
def make_document() -> Object:
    """Returns the OpenAPI document of this version's CRD; all clients share it."""
    schema = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-group-version-kind"] = [{"group": names.GROUP, "version": names.VERSION, "kind": names.KIND}]
    return {"components": {"schemas": {"job": schema}}}


def make_deployment(ready: int = 1, version: str = __version__) -> Object:
    labels = {"app.kubernetes.io/version": version}
    status = {"readyReplicas": ready} if ready else {}
    return make_object("railhead-operator", namespace="railhead-system", labels=labels, status=status)


def make_lease(holder: str | None = "operator-1_a", renewed: str = "2026-11-25T11:59:58.000000Z") -> Object:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return make_object("railhead-operator", namespace="railhead-system", spec=spec)


def make_node(name: str, gpus: str = "", **labels: str) -> Object:
    amounts = {"cpu": "8", **({"nvidia.com/gpu": gpus} if gpus else {})}
    return make_object(name, labels=labels, status={"allocatable": amounts, "capacity": amounts})


DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
ENDPOINTS = [{"conditions": {"ready": True}}, {"conditions": {}}, {"conditions": {"ready": False}}]
OBJECTS: Mapping[str, list[Object]] = {
    "deployments": [make_deployment()],
    "leases": [make_lease()],
    "trainjobs": [make_running()],
    "storageclasses": [make_object("slow"), make_object("fast", annotations=DEFAULT)],
    "nodes": [make_node("cpu-1"), make_node("gpu-1", "8"), make_node("gpu-2", "8")],
    "daemonsets": [make_object("cilium"), make_object("logs")],
    "endpointslices": [make_object("kube-dns-a", endpoints=ENDPOINTS)],
}


@dataclass
class Answers:
    """What the API server answers.

    Attributes:
        objects: by resource, instead of those of OBJECTS; an error is raised.
        paths: by path, likewise.
        denied: resources and verbs that the user may not use.
        created: the kinds of all objects that were created.
    """

    objects: dict[str, list[Object] | KubeError] = field(default_factory=dict)
    paths: dict[str, Object | KubeError] = field(default_factory=dict)
    level: str = "restricted"
    denied: tuple[tuple[str, str], ...] = ()
    default_queue: Object | KubeError = field(default_factory=lambda: Gone(404, "NotFound", "no such LocalQueue"))
    created: list[str] = field(default_factory=list)


def _give(answer: Any) -> Any:
    if isinstance(answer, KubeError):
        raise answer
    return answer


class FixedClient(KubeClient):
    """Gives these answers, and fails the test for all other requests."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(NoTransport())
        self._answers = answers
        self.clock.now = lambda: NOW  # type: ignore[method-assign]

    async def get_object(self, path: str) -> Object:
        paths: dict[str, Object | KubeError] = {
            "/version": {"minor": "36", "gitVersion": "v1.36.1"},
            PATH: make_document(),
            **self._answers.paths,
        }
        absent = Gone(404, "NotFound", path) if path.startswith("/apis/") else None
        return dict(_give(paths.get(path, absent) if absent else paths[path]))

    async def list(self, scope: Scope) -> list[Object]:
        return list(_give({**OBJECTS, **self._answers.objects}[scope.kind.plural]))

    async def list_each(
        self, scope: Scope, read: Callable[[Object], Any], *, metadata_only: bool = False
    ) -> Listed[Any]:
        return Listed("1", [read(each) for each in await self.list(scope)])

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object:
        assert kind in (NAMESPACE, CRD, LOCAL_QUEUE)
        if kind == LOCAL_QUEUE:
            assert (name, namespace) == ("default", "team-a")
            return make_object(name, **_give(self._answers.default_queue))
        if kind == CRD:
            raise Denied(403, "Forbidden", "no")
        if not self._answers.level:
            raise Gone(404, "NotFound", f'namespaces "{name}" not found')
        return make_object(name, labels={"pod-security.kubernetes.io/enforce": self._answers.level})

    async def create(self, kind: Kind, body: Object, **_: Any) -> Object:
        self._answers.created.append(kind.kind)
        wanted = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (wanted["resource"], wanted["subresource"])))
        assert wanted["group"] == (names.GROUP if resource == names.PLURAL else "")
        return {"status": {"allowed": (resource, wanted["verb"]) not in self._answers.denied}}
