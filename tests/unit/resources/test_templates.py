"""What a template says about restarts, /dev/shm, claims and gates, and what reaches the pod of its fields."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api import names
from railhead.api.pod_fields import CONTAINER_FIELDS, POD_FIELDS, FieldDecision
from tests.unit.resources.test_pod_builder import ROLES, build, mounts, ray, volumes

both_roles = pytest.mark.parametrize("role", ROLES)
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
SHM = {"name": "mps", "hostPath": {"path": "/run/nvidia/mps/shm"}}


def make_template(**ray_fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", **ray_fields}]}}


@both_roles
@pytest.mark.parametrize("fields", [{"restartPolicy": "OnFailure"}, {"restartPolicy": "Never"}])
@pytest.mark.parametrize("name", ["ray", "side"])
def test_no_container_restarts_in_its_pod(role: str, name: str, fields: dict[str, str]) -> None:
    """The CRD refuses this, but a job that is older than the rule may have it."""
    container = {"name": name, "image": "side:1", **fields, "restartPolicyRules": RULES}
    init = {"name": "first", "image": "first:1", **fields, "restartPolicyRules": RULES}
    pod = build(role, podTemplate={"spec": {"containers": [container], "initContainers": [init]}})
    all_containers = [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]
    assert {each["name"] for each in all_containers} >= {"ray", name, "first"}
    assert "restartPolicy" not in str(all_containers) and pod["spec"]["restartPolicy"] == "Never"


@both_roles
def test_a_sidecar_stays_one(role: str) -> None:
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    pod = build(role, podTemplate={"spec": {"initContainers": [sidecar]}})
    assert pod["spec"]["initContainers"] == [sidecar]


@both_roles
@pytest.mark.parametrize("field", [name for name, what in POD_FIELDS.items() if what is FieldDecision.KEPT])
def test_a_kept_field_reaches_the_pod_as_it_is(role: str, field: str) -> None:
    value: Any = {"made": "up"} if field in ("securityContext", "dnsConfig") else "made-up"
    found = build(role, podTemplate={"spec": {field: value}})["spec"][field]
    assert found == value or found.items() >= value.items()


@both_roles
@pytest.mark.parametrize(
    "field", [name for name, what in CONTAINER_FIELDS.items() if what is FieldDecision.KEPT and name != "name"]
)
def test_a_kept_field_of_the_container_reaches_it(role: str, field: str) -> None:
    value: Any = {"made": "up"} if field == "securityContext" else [{"made": "up"}]
    found = ray(build(role, podTemplate=make_template(**{field: value})))[field]
    assert found == value or found.items() >= value.items()


@both_roles
def test_a_field_that_is_refused_or_overwritten_never_reaches_the_pod(role: str) -> None:
    own = (FieldDecision.REFUSED, FieldDecision.OVERWRITTEN)
    spec = {name: "made-up" for name, what in POD_FIELDS.items() if what in own}
    container = {name: "made-up" for name, what in CONTAINER_FIELDS.items() if what in own}
    plain = build(role)
    pod = build(role, podTemplate={"spec": {**spec, **make_template(**container)["spec"]}})
    assert {key: pod["spec"].get(key) for key in spec} == {key: plain["spec"].get(key) for key in spec}
    assert {key: ray(pod).get(key) for key in container} == {key: ray(plain).get(key) for key in container}


@both_roles
@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_a_template_s_volume_at_the_shared_memory_wins(role: str, path: str) -> None:
    template = make_template(volumeMounts=[{"name": "mps", "mountPath": path}])
    template["spec"]["volumes"] = [SHM]
    pod = build(role, podTemplate=template)
    assert mounts(pod)[path] == "mps"
    assert "railhead-shm" not in volumes(pod) and len(mounts(pod)) == len(mounts(build(role)))


def test_a_volume_of_one_role_at_the_shared_memory_leaves_the_other_s_alone() -> None:
    template = make_template(volumeMounts=[{"name": "mps", "mountPath": "/dev/shm"}])
    assert mounts(build("head", worker={"podTemplate": template}))["/dev/shm"] == "railhead-shm"
    assert mounts(build("worker", worker={"podTemplate": template}))["/dev/shm"] == "mps"


@both_roles
def test_a_sidecar_s_own_shared_memory_is_its_own_matter(role: str) -> None:
    side = {"name": "side", "image": "side:1", "volumeMounts": [{"name": "mps", "mountPath": "/dev/shm"}]}
    pod = build(role, podTemplate={"spec": {"containers": [side], "volumes": [SHM]}})
    assert mounts(pod)["/dev/shm"] == "railhead-shm"
    assert side in pod["spec"]["containers"]


LISTS: dict[str, tuple[str, str]] = {
    "schedulingGates": ("name", "example.com/"),
    "resourceClaims": ("name", ""),
    "readinessGates": ("conditionType", "example.com/"),
}


@pytest.mark.parametrize("name", LISTS)
def test_claims_and_gates_of_both_templates_reach_the_pod(name: str) -> None:
    key, prefix = LISTS[name]
    both, own = ({key: f"{prefix}{each}"} for each in ("both", "own"))
    template, of_workers = ({"spec": {name: [each]}} for each in (both, own))
    pod = build("worker", podTemplate=template, worker={"podTemplate": of_workers})
    assert pod["spec"][name] == [both, own]
    assert build("head", podTemplate=template, worker={"podTemplate": of_workers})["spec"][name] == [both]


def test_claims_of_the_container_are_merged_by_name_and_the_last_one_wins() -> None:
    claims = [{"name": "gpu", "request": "all"}, {"name": "nic"}]
    template = make_template(resources={"claims": claims})
    template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    of_workers = make_template(resources={"claims": [{"name": "gpu"}, {"name": "disk"}]})
    of_workers["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "each"}]
    pod = build("worker", podTemplate=template, worker={"podTemplate": of_workers})
    assert ray(pod)["resources"]["claims"] == [{"name": "gpu"}, {"name": "nic"}, {"name": "disk"}]
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "each"}]


@both_roles
def test_nulls_that_programs_write_are_as_good_as_absent(role: str) -> None:
    metadata = {"creationTimestamp": None, "labels": None, "annotations": None, "name": None}
    lists = dict.fromkeys(("containers", "initContainers", "volumes", "tolerations"))
    nulls: dict[str, Any] = {"metadata": metadata, "spec": {**lists, "terminationGracePeriodSeconds": None}}
    template = make_template(resources=None, env=None, volumeMounts=None)
    of_role: dict[str, Any] = {role: {"podTemplate": nulls}}
    assert build(role, podTemplate={"metadata": None, **template}, **of_role) == build(role)


@both_roles
@pytest.mark.parametrize("where", ["podTemplate", "role"])
def test_a_null_for_an_empty_map_or_list_takes_nothing_away(role: str, where: str) -> None:
    """Helm renders `securityContext:` without a value as null. Without the defaults the pod would run as root."""
    own: dict[str, Any] = {"env": [{"name": "A", "value": "b"}], "envFrom": [{"secretRef": {"name": "keys"}}]}
    template: dict[str, Any] = make_template(securityContext=None, envFrom=None, env=None, resources=None)
    template["spec"].update(dict.fromkeys(("securityContext", "affinity", "nodeSelector", "imagePullSecrets")))
    of_role: dict[str, Any] = {role: {"podTemplate": template}}
    given = {"podTemplate": template} if where == "podTemplate" else of_role
    pod = build(role, **own, imagePullSecrets=[{"name": "registry"}], **given)
    plain = build(role, **own, imagePullSecrets=[{"name": "registry"}])
    assert {key: value for key, value in pod["spec"].items() if value is not None} == plain["spec"]


@both_roles
def test_a_null_of_a_single_value_removes_it(role: str) -> None:
    template = {"spec": {"securityContext": {"runAsUser": None}}}
    assert build(role, podTemplate=template)["spec"]["securityContext"]["runAsUser"] is None


@both_roles
def test_a_template_s_own_name_and_component_win_and_the_identity_stays(role: str) -> None:
    labels = {"app.kubernetes.io/name": "digits", "app.kubernetes.io/component": "trainer"}
    others = {names.LABEL_ROLE: "other", "app.kubernetes.io/managed-by": "Helm"}
    found = build(role, podTemplate={"metadata": {"labels": {**labels, **others}}})["metadata"]["labels"]
    assert found.items() >= labels.items()
    assert (found[names.LABEL_ROLE], found["app.kubernetes.io/managed-by"]) == (role, "railhead")
