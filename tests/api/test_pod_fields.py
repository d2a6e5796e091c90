"""Railhead has decided about every field of this Kubernetes' pods, and merges their lists as Kubernetes does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from railhead.api.pod_fields import CONTAINER_FIELDS, POD_FIELDS, FieldDecision, list_refused
from railhead.resources.merge import APPENDED, MERGE_KEYS
from tests.api.server import ApiServer
from tests.api.trainjobs import PATH, make_job

PREFIX = "io.k8s.api.core.v1."
# Fields that only a newer or an older Kubernetes than that of the tests serves; `make test-all` tries both.
OF_OTHERS = {"evictionResponders", "schedulingGroup", "workloadRef"}
# Of a new pod there are none, and the owners are those of a claim template in a volume, which is replaced as a whole.
REPLACED = {"ephemeralContainers", "ownerReferences"}


@pytest.fixture(scope="module")
def schemas(api_server: ApiServer) -> Mapping[str, Any]:
    answer = api_server.request("GET", "/openapi/v3/api/v1")
    assert answer.status == 200, answer.message
    found: dict[str, Any] = answer.body["components"]["schemas"]
    return found


@pytest.mark.parametrize(("kind", "decided"), [("PodSpec", POD_FIELDS), ("Container", CONTAINER_FIELDS)])
def test_every_field_has_a_decision(
    schemas: Mapping[str, Any], kind: str, decided: Mapping[str, FieldDecision]
) -> None:
    """A field that is missing here is new: decide in api/pod_fields.py whether a template may have it."""
    fields = set(schemas[PREFIX + kind]["properties"])
    assert len(fields) > 20
    assert fields - set(decided) == set(), "new fields"
    assert set(decided) - fields - OF_OTHERS == set(), "fields that are gone"


def find_named_lists(schemas: Mapping[str, Any], kind: str, seen: set[str]) -> dict[str, str]:
    """Returns the lists of a kind and of all in it that Kubernetes itself merges by a key."""
    found: dict[str, str] = {}
    if kind in seen or kind not in schemas:
        return found
    seen.add(kind)
    for name, field in schemas[kind].get("properties", {}).items():
        keys = field.get("x-kubernetes-list-map-keys") or [field.get("x-kubernetes-patch-merge-key")]
        if keys[0]:
            found[name] = field.get("x-kubernetes-patch-merge-key") or keys[0]
        for inner in (field, field.get("items", {})):
            for each in (inner, *inner.get("allOf", [])):
                found |= find_named_lists(schemas, each.get("$ref", "").rpartition("/")[2], seen)
    return found


def test_the_merge_of_two_templates_knows_every_list_that_kubernetes_merges(schemas: Mapping[str, Any]) -> None:
    lists = find_named_lists(schemas, f"{PREFIX}PodSpec", set())
    assert {"containers": "name", "resourceClaims": "name", "claims": "name"}.items() <= lists.items()
    unknown = {name: key for name, key in lists.items() if name not in APPENDED and MERGE_KEYS.get(name) != key}
    assert set(unknown) == REPLACED


def make_value(field: Mapping[str, Any]) -> Any:
    return [{}] if field.get("type") == "array" else "Always"


@pytest.mark.parametrize("template", ["podTemplate", "head.podTemplate", "worker.podTemplate"])
def test_a_field_that_is_refused_is_refused_by_name(
    api_server: ApiServer, schemas: Mapping[str, Any], template: str
) -> None:
    for field in list_refused(POD_FIELDS):
        value = make_value(schemas[f"{PREFIX}PodSpec"]["properties"][field])
        job = make_job({f"spec.{template}": {"spec": {field: value}}})
        answer = api_server.request("POST", PATH, job, dryRun="All", fieldValidation="Strict")
        assert answer.status == 422, field
        assert f"spec.{template}.spec.{field}: Invalid value" in answer.message
    for field in list_refused(CONTAINER_FIELDS):
        value = make_value(schemas[f"{PREFIX}Container"]["properties"][field])
        container = {"name": "ray", field: [str(each) for each in value] if field in ("args", "command") else value}
        job = make_job({f"spec.{template}": {"spec": {"containers": [container]}}})
        answer = api_server.request("POST", PATH, job, dryRun="All", fieldValidation="Strict")
        assert answer.status == 422, field
        assert field in answer.message
