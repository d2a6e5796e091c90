"""Labels and annotations that a cluster demands are on every object that the operator makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.api.spec import PodUser
from railhead.planning.observed import Observed
from railhead.planning.plan import CopyConfigMap, Create
from railhead.planning.planner import plan
from railhead.resources.base import CommonMetadata, JobNetworkPolicy
from tests.unit.builders import SETTINGS, make_job, make_observed, make_spec
from tests.unit.resources.test_pod_builder import ROLES, build

OF_THE_OPERATOR = CommonMetadata({"team": "platform", "cost": "7"}, {"example.com/owner": "platform"})
SETTINGS_WITH_ALL = replace(SETTINGS, job_network_policy=JobNetworkPolicy(), common_metadata=OF_THE_OPERATOR)
OF_THE_JOB = {"labels": {"team": "vision"}, "annotations": {"example.com/run": "42"}}
SOURCE = {"configMap": {"name": "code"}}


def build_children(**spec: Any) -> dict[str, Any]:
    """All objects of a job that uses every kind of them but a Workload, by kind and a part of the name."""
    spec = {"source": SOURCE, "scheduling": {"gangScheduler": "Volcano"}, **spec}
    observed: Observed = make_observed(settings=SETTINGS_WITH_ALL)
    creates = plan(replace(observed, spec=make_spec(**spec))).creates
    assert all(isinstance(each, Create | CopyConfigMap) for each in creates)
    made = [dict(each.build()) for each in creates]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in made}


KINDS = {"Service", "ConfigMap", "Secret", "NetworkPolicy", "PodGroup", "Pod"}


def test_every_object_has_the_operators_labels_and_annotations() -> None:
    children = build_children()
    assert {each["kind"] for each in children.values()} == KINDS
    for name, child in children.items():
        assert child["metadata"]["labels"].items() >= OF_THE_OPERATOR.labels.items(), name
        assert child["metadata"]["annotations"].items() >= OF_THE_OPERATOR.annotations.items(), name
        assert child["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "railhead", name


def test_the_jobs_own_win_on_its_children_and_are_not_on_what_all_jobs_share() -> None:
    children = build_children(childMetadata=OF_THE_JOB)
    shared = [name for name, child in children.items() if "ownerReferences" not in child["metadata"]]
    shared = [name for name in shared if not name.startswith("Secret")]  # which the executor gives its owner
    assert len(shared) == 2
    for name, child in children.items():
        labels, annotations = child["metadata"]["labels"], child["metadata"]["annotations"]
        assert labels["team"] == ("platform" if name in shared else "vision"), name
        assert annotations.get("example.com/run") == (None if name in shared else "42"), name
        assert (labels["cost"], annotations["example.com/owner"]) == ("7", "platform"), name


def test_a_workload_has_them_beside_its_digest() -> None:
    from railhead.planning.children import create_workload

    spec = make_spec(childMetadata=OF_THE_JOB, scheduling={"queueName": "team"})
    metadata = create_workload(make_job(settings=SETTINGS_WITH_ALL, spec=spec)).build()["metadata"]
    assert metadata["labels"].items() >= {"team": "vision", "cost": "7"}.items()
    assert metadata["annotations"].items() >= {"example.com/run": "42", "example.com/owner": "platform"}.items()
    assert "railhead.dev/workload-digest" in metadata["annotations"]


def test_the_labels_of_a_podtemplate_win_on_pods() -> None:
    template = {"metadata": {"labels": {"team": "audio"}, "annotations": {"example.com/run": "7"}}}
    children = build_children(childMetadata=OF_THE_JOB, podTemplate=template)
    for name, child in children.items():
        is_pod = child["kind"] == "Pod"
        if is_pod:
            assert child["metadata"]["labels"]["team"] == "audio", name
            assert child["metadata"]["annotations"]["example.com/run"] == "7", name
            assert child["metadata"]["labels"][names.LABEL_JOB_NAME] == "digits"


def test_no_metadata_changes_nothing() -> None:
    assert "annotations" not in plan_service(CommonMetadata())["metadata"]


def plan_service(common: CommonMetadata) -> Any:
    observed = make_observed(settings=replace(SETTINGS, common_metadata=common))
    [service] = [each for each in plan(observed).creates if each.name == names.HEADS_SERVICE]
    assert isinstance(service, Create)
    return service.build()


IDS = ("runAsUser", "runAsGroup", "fsGroup")


def build_context(role: str, default: PodUser, **spec: Any) -> Any:
    observed = replace(make_observed(settings=replace(SETTINGS, pod_user=default)), spec=make_spec(**spec))
    pods = [dict(each.build()) for each in plan(observed).creates if each.name.startswith("digits-") and is_pod(each)]
    [pod] = [each for each in pods if each["metadata"]["labels"][names.LABEL_ROLE] == role][:1]
    return pod


def is_pod(create: Create | CopyConfigMap) -> bool:
    return create.kind == "Pod"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("default", "spec", "is_fixed"),
    [
        ("Fixed", {}, True),
        ("Cluster", {}, False),
        ("Fixed", {"podUser": "Cluster"}, False),
        ("Cluster", {"podUser": "Fixed"}, True),
    ],
)
def test_pods_have_ids_or_leave_them_to_the_cluster(
    role: str, default: PodUser, spec: dict[str, str], is_fixed: bool
) -> None:
    context = build_context(role, default, **spec)["spec"]["securityContext"]
    assert [context.get(key) for key in IDS] == ([1000] * 3 if is_fixed else [None] * 3)
    assert context["runAsNonRoot"] is True and context["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("role", ROLES)
def test_the_template_s_ids_win(role: str) -> None:
    template = {"spec": {"securityContext": {"runAsUser": 1000660000}}}
    pod = build_context(role, "Cluster", podTemplate=template)
    assert pod["spec"]["securityContext"]["runAsUser"] == 1000660000


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("group", "mode"), [({"fsGroup": 5}, 0o440), ({"fsGroup": None}, 0o444), ({}, 0o440)])
def test_the_token_can_be_read_by_whoever_the_user_is(role: str, group: dict[str, Any], mode: int) -> None:
    """Without fsGroup the kubelet gives the files to root; with 0440 no user that a cluster chooses could read them."""
    mine = {"name": "mine", "secret": {"secretName": "mine", "defaultMode": 0o400}}
    pod = build(role, podTemplate={"spec": {"securityContext": group, "volumes": [mine]}})
    modes = {
        volume["name"]: (volume.get("secret") or volume.get("projected"))["defaultMode"]
        for volume in pod["spec"]["volumes"]
        if "secret" in volume or "projected" in volume
    }
    assert modes.pop("mine") == 0o400
    assert set(modes) >= {"railhead-auth"} and set(modes.values()) == {mode}
