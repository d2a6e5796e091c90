"""Objects that somebody planted under the names of a job's children: none is used, and each is named."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from railhead.api import names
from railhead.controller.executor import ChildRejected
from railhead.kube.errors import Denied
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.resources.bundle import BUNDLE_FILE
from tests.model.api_server import ModelApiServer, Object, Objects
from tests.model.client import ModelClient, make_client
from tests.model.patches import merge
from tests.unit.builders import SETTINGS, make_observed, make_spec, to_job
from tests.unit.controller.raws import JOB_OWNER
from tests.unit.controller.test_copies import execute

SERVICE = ("services", names.HEADS_SERVICE)
BUNDLE = ("configmaps", SETTINGS.bundle_name)
FOREIGN_CODE = base64.b64encode(b"foreign").decode()
NOT_OWNED: Object = {"metadata": {"ownerReferences": []}}
KUBEFLOWS: Object = {"metadata": {"ownerReferences": [{**JOB_OWNER, "apiVersion": "trainer.kubeflow.org/v1alpha1"}]}}
NO_OWNER = "exists that this TrainJob does not own; delete it"
OTHER = "exists with other content; delete it"


OBSERVED = make_observed(spec=make_spec(source={"inline": {"train.py": "x = 1"}}), namespace="team")
INPUT = ("configmaps", to_job(OBSERVED).own_mounts.input)


def plan_children() -> Plan:
    return Plan(creates=plan(OBSERVED).creates)


def remove_pods(client: ModelClient) -> None:
    left = {place: obj for place, obj in client.api.objects.items() if place[0] != "pods"}
    client.api.objects = Objects(left)


async def make_started() -> ModelClient:
    """Its server has the children of a job."""
    client = make_client()
    await execute(client, plan_children())
    remove_pods(client)
    client.asked.clear()
    return client


def replace_child(api: ModelApiServer, child: tuple[str, str], change: Object) -> None:
    place = (child[0], "team", child[1])
    api.put(merge(api.objects[place], change))


def with_input(change: Callable[[dict[str, Any]], object]) -> Callable[[Object], Object]:
    """Changes a field of the input."""

    def change_data(obj: Object) -> Object:
        values = json.loads(obj["data"]["job.json"])
        change(values)
        return {"data": {"job.json": json.dumps(values)}}

    return change_data


PLANTED: dict[str, tuple[tuple[str, str], Object | Callable[[Object], Object], str]] = {
    "input of nobody": (INPUT, NOT_OWNED, NO_OWNER),
    "input of Kubeflow's TrainJob": (INPUT, KUBEFLOWS, NO_OWNER),
    "inline code": (INPUT, {"data": {"source.train.py": "foreign"}}, OTHER),
    "one more file": (INPUT, {"data": {"source.sitecustomize.py": "foreign"}}, OTHER),
    "binary file": (INPUT, {"binaryData": {"source.torch.py": FOREIGN_CODE}}, OTHER),
    "input that may change": (INPUT, {"immutable": None}, OTHER),
    "no JSON": (INPUT, {"data": {"job.json": "{"}}, OTHER),
    "no object": (INPUT, {"data": {"job.json": "[]"}}, OTHER),
    "function": (INPUT, with_input(lambda v: v.update(train_func="os:abort")), OTHER),
    "the CA": (INPUT, {"data": {"report-ca.crt": "another CA"}}, OTHER),
    "packages": (INPUT, with_input(lambda v: v.update(runtime_env={"pip": ["foreign"]})), OTHER),
    "Service to another head": (SERVICE, {"spec": {"selector": {"app": "foreign"}}}, OTHER),
    "Service to another host": (SERVICE, {"spec": {"type": "ExternalName", "clusterIP": None}}, OTHER),
    "Service with an address": (SERVICE, {"spec": {"clusterIP": "10.0.0.1"}}, OTHER),
    "driver": (BUNDLE, {"binaryData": {BUNDLE_FILE: FOREIGN_CODE}}, OTHER),
    "driver that may change": (BUNDLE, {"immutable": None}, OTHER),
    "driver with one more file": (BUNDLE, {"data": {"site.py": "foreign"}}, OTHER),
}


@pytest.mark.parametrize(("child", "change", "message"), PLANTED.values(), ids=PLANTED)
async def test_no_pod_is_created_beside_a_planted_object_until_it_is_deleted(
    child: tuple[str, str], change: Object | Callable[[Object], Object], message: str
) -> None:
    client = await make_started()
    place = (child[0], "team", child[1])
    replace_child(client.api, child, change(client.api.objects[place]) if callable(change) else change)
    for _ in range(2):
        with pytest.raises(ChildRejected, match=f"{child[1]} was rejected: .* {message}") as caught:
            await execute(client, plan_children())
        assert caught.value.problem.reason == "ForeignObject"
    assert client.names("create", "pods") == []
    client.api.remove(place)
    await execute(client, plan_children())
    assert len(client.names("create", "pods")) == 3


async def test_children_that_exist_already_are_used_and_no_secret_is_read() -> None:
    client = await make_started()
    await execute(client, plan_children())
    assert len(client.names("create", "pods")) == 3
    assert sorted(client.names("get")) == sorted([INPUT[1], SERVICE[1], BUNDLE[1]])
    assert client.names("get", "secrets") == []


async def test_an_operator_that_may_not_look_uses_nothing() -> None:
    client = await make_started()
    client.faults.script["get", SERVICE[1]] = [Denied(403, "Forbidden", "may not get services")]
    with pytest.raises(ChildRejected, match="may not get services"):
        await execute(client, plan_children())
    assert client.names("create", "pods") == []


async def test_a_service_of_another_version_is_used_if_it_leads_to_the_heads() -> None:
    client = await make_started()
    for change in ({"publishNotReadyAddresses": None}, {"type": None, "internalTrafficPolicy": "Local"}):
        remove_pods(client)
        client.asked.clear()
        replace_child(client.api, SERVICE, {"spec": change})
        await execute(client, plan_children())
        assert len(client.names("create", "pods")) == 3
