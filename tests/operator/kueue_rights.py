"""The operator's rights for Kueue, equal to those that the chart gives with queue.kueue.enabled."""

from __future__ import annotations

from tests.api.server import ApiServer
from tests.kueue.workload import Object

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAME = "railhead-operator-kueue"


def grant_rights(server: ApiServer) -> None:
    def rule(resources: str, verbs: str) -> Object:
        return {"apiGroups": ["kueue.x-k8s.io"], "resources": resources.split(), "verbs": verbs.split()}

    rules = [
        rule("workloads", "get list watch create patch delete"),
        rule("workloads/status", "patch"),
        rule("resourceflavors workloadpriorityclasses", "list watch"),
    ]
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": NAME}}
    account = {"kind": "ServiceAccount", "name": "railhead-operator", "namespace": "railhead-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    bodies: list[Object] = [
        {**meta, "kind": "ClusterRole", "rules": rules},
        {**meta, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [account]},
    ]
    for body in bodies:
        assert server.request("POST", f"{RBAC}/{body['kind'].lower()}s", body).status in (201, 409)
