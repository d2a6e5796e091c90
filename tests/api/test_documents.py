"""The API server accepts each object in the documents and the examples, as `kubectl apply` sends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.api.server import ApiServer
from tests.api.trainjobs import PATH

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
CORE = "/api/v1/namespaces/default"
PATHS = {
    "TrainJob": PATH,
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": f"{CORE}/persistentvolumeclaims",
    "ConfigMap": f"{CORE}/configmaps",
    "Service": f"{CORE}/services",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Secret": f"{CORE}/secrets",
    "ServiceAccount": f"{CORE}/serviceaccounts",
    "ResourceQuota": f"{CORE}/resourcequotas",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
}
# Kustomize reads the one, and the CRD of the others is not here.
KUEUE = {"ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology", "WorkloadPriorityClass"}
NOT_SENT = {"Kustomization", "PodMonitor", *KUEUE}


def find_objects(path: Path) -> list[dict[str, object]]:
    """Returns the complete objects in the YAML blocks of a page, or in a file of YAML."""
    text = path.read_text()
    blocks = [text] if path.suffix == ".yaml" else BLOCK.findall(text)
    documents = [document for block in blocks for document in yaml.load_all(block, yaml.CSafeLoader)]
    return [each for each in documents if isinstance(each, dict) and {"apiVersion", "kind"} <= set(each)]


PAGES = sorted([PROJECT / "README.md", *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("manifests/examples/*.yaml")])
OBJECTS = [
    pytest.param(each, id=f"{page.relative_to(PROJECT)}-{number}-{each['kind']}")
    for page in PAGES
    for number, each in enumerate(find_objects(page))
    if each["kind"] not in NOT_SENT
]


@pytest.mark.parametrize("sent", OBJECTS)
def test_the_api_server_accepts_the_object(api_server: ApiServer, sent: dict[str, object]) -> None:
    kind = cast(str, sent["kind"])
    metadata = cast(dict[str, object], sent["metadata"])
    if kind not in ("Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding"):
        metadata = metadata | {"namespace": "default"}
    body = sent | {"metadata": metadata}
    answer = api_server.request("POST", PATHS[kind], body, dryRun="All", fieldValidation="Strict")
    assert answer.status == 201, answer.message


def test_the_documents_have_objects() -> None:
    assert len(OBJECTS) > 30
