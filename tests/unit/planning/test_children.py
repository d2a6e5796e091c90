"""The one list of children: everything created is removed, and each kind's API path is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.kube import kinds
from railhead.planning.children import head_pod, prerequisites, removals, worker_pods
from railhead.planning.plan import Create
from railhead.resources import pod_builder
from railhead.resources.base import JobNetworkPolicy
from railhead.resources.pod_builder import build_pod
from tests.unit.builders import make_job, make_spec

WITH_ALL = make_job(
    spec=make_spec(source={"configMap": {"name": "code"}}, scheduling={"gangScheduler": "Volcano"}),
    status={"attempt": 1},
)
WITH_ALL = replace(WITH_ALL, settings=replace(WITH_ALL.settings, job_network_policy=JobNetworkPolicy()))


def test_the_path_of_each_kind_is_known() -> None:
    assert set(kinds.CHILDREN) == {"Pod", "Workload", *(create.kind for create in prerequisites(WITH_ALL, attempt=1))}


def test_everything_created_for_a_job_is_removed_with_it() -> None:
    service, bundle, input_, secret, *created = [
        (create.kind, create.name) for create in prerequisites(WITH_ALL, attempt=1)
    ]
    assert [input_, *created] == [(remove.kind, remove.name) for remove in removals(WITH_ALL)]
    owners = {create.owner for create in prerequisites(WITH_ALL, attempt=1) if isinstance(create, Create)}
    assert secret[0] == "Secret" and owners == {"", input_[1]}, "it goes with its owner"
    shared = [("Service", names.HEADS_SERVICE), ("ConfigMap", WITH_ALL.settings.bundle_name)]
    assert [service, bundle] == shared, "they belong to the namespace"


def test_pods_have_the_names_of_their_creates() -> None:
    workers = worker_pods(WITH_ALL, attempt=2, slots=(0, 7), round_=3)
    for create in (head_pod(WITH_ALL, attempt=2, workers=2), *workers, *prerequisites(WITH_ALL, attempt=2)):
        assert create.build()["metadata"]["name"] == create.name


def test_a_plan_with_4096_pods_builds_none_and_sending_them_builds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def count(*args: Any, **kwargs: Any) -> Any:
        built.append("pod")
        return build_pod(*args, **kwargs)

    monkeypatch.setattr(pod_builder, "build_pod", count)
    creates = worker_pods(WITH_ALL, attempt=1, slots=range(4096), round_=0)
    assert (len(creates), built) == (4096, [])
    assert len({create.build()["metadata"]["name"] for create in creates}) == 4096
    assert built == ["pod"]
