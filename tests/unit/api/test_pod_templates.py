"""The user's templates override defaults, the role's override the job's; what the job requires overrides all."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api import names
from tests.unit.resources.test_pod_builder import ROLES, build, env, mounts, ray, volumes

both_roles = pytest.mark.parametrize("role", ROLES)
# The CRD would reject this, but an object stored under another schema may have it.
HOSTILE: dict[str, Any] = {
    "metadata": {"labels": {names.LABEL_ROLE: "other", "mine": "yes"}, "annotations": {"note": "kept"}},
    "spec": {
        "restartPolicy": "Always",
        "hostname": "elsewhere",
        "subdomain": "elsewhere",
        "automountServiceAccountToken": True,
        "volumes": [{"name": "railhead-bundle", "hostPath": {"path": "/evil"}}],
        "containers": [
            {
                "name": "ray",
                "image": "evil",
                "command": ["evil"],
                "args": ["evil"],
                "env": [
                    {"name": "RAILHEAD_ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                    {"name": "RAY_AUTH_MODE", "value": "disabled"},
                ],
                "volumeMounts": [{"name": "railhead-temp", "mountPath": "/opt/railhead", "subPath": "evil"}],
            }
        ],
    },
}


@both_roles
def test_no_template_overrides_what_the_job_requires(role: str) -> None:
    plain, pod = build(role), build(role, podTemplate=HOSTILE)
    for field in ("restartPolicy", "hostname", "subdomain", "automountServiceAccountToken"):
        assert pod["spec"][field] == plain["spec"][field]
    for field in ("image", "command", "args"):
        assert ray(pod)[field] == ray(plain)[field]
    assert (env(pod), mounts(pod), volumes(pod)) == (env(plain), mounts(plain), volumes(plain))
    assert "subPath" not in str(ray(pod)["volumeMounts"])
    assert pod["metadata"]["labels"] == {**plain["metadata"]["labels"], "mine": "yes"}
    assert pod["metadata"]["annotations"] == {**plain["metadata"]["annotations"], "note": "kept"}


@both_roles
def test_a_template_may_override_defaults_and_add_fields(role: str) -> None:
    side = {"name": "side", "image": "side:1", "env": [{"name": "A", "value": "1"}]}
    spec: dict[str, Any] = {
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
        "terminationGracePeriodSeconds": 120,
        "nodeSelector": {"zone": "a"},
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [
            {
                "name": "ray",
                "resources": {"limits": {"cpu": "9", "hugepages-2Mi": "1Gi"}},
                "env": [{"name": "HOME", "value": "/home/me"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            side,
        ],
    }
    plain, pod = build(role), build(role, podTemplate={"spec": spec})
    assert pod["spec"]["nodeSelector"] == {"zone": "a"}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 120
    assert pod["spec"]["securityContext"] == {**plain["spec"]["securityContext"], **spec["securityContext"]}
    assert volumes(pod) == {**volumes(plain), "data": {"emptyDir": {}}}
    assert mounts(pod) == {**mounts(plain), "/data": "data"}
    assert env(pod) == {**env(plain), "HOME": "/home/me"}
    resources = ray(plain)["resources"]
    assert ray(pod)["resources"] == {**resources, "limits": {**resources["limits"], "cpu": "9", "hugepages-2Mi": "1Gi"}}
    assert [c for c in pod["spec"]["containers"] if c["name"] != "ray"] == [side]


def test_a_roles_template_overrides_the_jobs_for_that_role_only() -> None:
    def template(zone: str, key: str) -> dict[str, Any]:
        return {"spec": {"nodeSelector": {"zone": zone}, "tolerations": [{"key": key}]}}

    changes: dict[str, Any] = {
        "podTemplate": template("all", "all"),
        "worker": {"podTemplate": template("worker", "worker")},
    }
    head, worker = (build(role, **changes)["spec"] for role in ROLES)
    assert (head["nodeSelector"], worker["nodeSelector"]) == ({"zone": "all"}, {"zone": "worker"})
    assert worker["tolerations"] == [{"key": "all"}, {"key": "worker"}]
    assert head["tolerations"][0] == {"key": "all"} and {"key": "worker"} not in head["tolerations"]


@both_roles
def test_the_specs_environment_overrides_defaults_and_the_template_overrides_it(role: str) -> None:
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    pod = build(
        role,
        env=[{"name": "HOME", "value": "/spec"}, {"name": "A", "value": "spec"}, {"name": "B", "valueFrom": secret}],
        envFrom=[{"secretRef": {"name": "all"}, "prefix": "P_"}],
        podTemplate={"spec": {"containers": [{"name": "ray", "env": [{"name": "A", "value": "template"}]}]}},
        imagePullPolicy="Always",
        imagePullSecrets=[{"name": "pull"}],
    )
    variables = env(pod)
    assert (variables["HOME"], variables["A"], variables["B"]) == ("/spec", "template", secret)
    marked = {"secretRef": {"name": "all"}, "prefix": "RAILHEAD_FROM_SECRET_P_"}
    assert ray(pod)["envFrom"] == [{"secretRef": {"name": "all"}, "prefix": "P_"}, marked]
    assert variables["RAILHEAD_FROM_SECRET_B"] == secret
    assert ray(pod)["imagePullPolicy"] == "Always"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_the_head_sees_no_gpus() -> None:
    """A user's variable cannot change that."""
    pod = build("head", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
