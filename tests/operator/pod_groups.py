"""The PodGroup resources of other gang schedulers, with the fields that Railhead uses.

From kubernetes-sigs/scheduler-plugins (apis/scheduling/v1alpha1/types.go) and volcano-sh/apis
(pkg/apis/scheduling/v1beta1/types.go); no controller acts on them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.api.server import ApiServer
from tests.waiting import wait_until

INTEGER, STRING = {"type": "integer", "format": "int32"}, {"type": "string"}
FIELDS = {
    "scheduling.x-k8s.io/v1alpha1": {"minMember": INTEGER, "scheduleTimeoutSeconds": INTEGER},
    "scheduling.volcano.sh/v1beta1": {"minMember": INTEGER, "queue": STRING, "priorityClassName": STRING},
}


def install_pod_groups(server: ApiServer) -> None:
    for api_version, fields in FIELDS.items():
        group, _, version = api_version.partition("/")
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert server.request("POST", crds, build_crd(group, version, fields)).status in (201, 409)
        wait_until(f"{api_version} is served", partial(is_served, server, f"/apis/{api_version}/podgroups"))


def is_served(server: ApiServer, path: str) -> bool:
    return server.request("GET", path).status == 200


def build_crd(group: str, version: str, fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": fields}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},  # groups of *.k8s.io need it
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "kind": "PodGroup"},
            "versions": [served],
        },
    }
