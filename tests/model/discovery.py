"""The discovery documents of the model's API server, by path."""

from __future__ import annotations

from typing import Any

from railhead.kube import kinds

Object = dict[str, Any]
KINDS = {kind.plural: kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)}
VERBS = ["create", "delete", "get", "list", "patch", "watch"]


def _group(kind: kinds.Kind) -> Object:
    version = {"groupVersion": kind.api_version, "version": kind.version}
    return {"name": kind.group, "versions": [version], "preferredVersion": version}


def _resource(kind: kinds.Kind) -> Object:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": ["create"] if kind.plural.endswith("reviews") else VERBS,
    }


def _resources(api_version: str) -> Object:
    served = [_resource(kind) for kind in KINDS.values() if kind.api_version == api_version]
    return {"kind": "APIResourceList", "groupVersion": api_version, "resources": served}


_BY_VERSION = {kind.api_version: kind for kind in KINDS.values()}
DISCOVERY: dict[str, Object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [_group(kind) for kind in _BY_VERSION.values() if kind.group]},
    **{kind.path().rpartition("/")[0]: _resources(version) for version, kind in _BY_VERSION.items()},
}
