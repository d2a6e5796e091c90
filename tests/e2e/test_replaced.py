"""Somebody replaces what a job's pods mount between their creation and their start."""

from __future__ import annotations

import json

import pytest

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job

HELD = {"spec": {"schedulingGates": [{"name": "tests.railhead.dev/hold"}]}}
FOREIGN = "print('foreign code runs', flush=True)\n\n\ndef train_func(config):\n    pass\n"


@pytest.mark.slow  # tests/unit/driver/container/test_pod_input.py has the pod, tests/operator/test_crowd.py the refusal
@pytest.mark.node
def test_a_pod_that_mounts_foreign_code_ends_before_it_runs_any(cluster: Cluster) -> None:
    cluster.apply(make_job("robbed", cluster.image, podTemplate=HELD))
    wait_until("its pods", lambda: len(cluster.pods("robbed")) == 3, tell=lambda: cluster.tell("robbed"))
    head, name = cluster.head_pod("robbed"), cluster.status("robbed")["input"]
    planted = cluster.get("configmap", name)
    planted["data"]["source.steps.py"] = FOREIGN
    planted["metadata"] = {key: planted["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    cluster("delete", "configmap", name, "--cascade=orphan")  # the Secret stays
    cluster.apply({**planted, "immutable": False})
    cluster("patch", "pod", head, "--type=json", "-p", json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}]))
    ask = lambda: cluster.status("robbed").get("failure")  # noqa: E731
    failure = wait_until("the failure", ask, tell=lambda: cluster.tell("robbed"))
    assert (failure["class"], failure["reason"]) == ("Infrastructure", "ContentReplaced")
    assert f"whose name ends with input-{name.rpartition('-')[2]} was replaced; delete it" in failure["message"]
    assert "foreign" not in cluster.log(head)

    def find_refusal() -> bool:
        return any(
            c["type"] == "Reconciling" and f"ConfigMap {name} was rejected" in c["message"]
            for c in cluster.status("robbed").get("conditions") or []
        )

    wait_until("the refusal", find_refusal, tell=lambda: cluster.tell("robbed"))
    cluster("delete", "configmap", name)
    wait_until("attempt 2", lambda: {"robbed", "2"} <= set(" ".join(cluster.pod_names("robbed")).split("-")))
    assert cluster.get("configmap", name)["immutable"] is True
    cluster.delete_job("robbed")
