"""Gangs: the PodGroup of an attempt in each scheduler's form, and the pods that join it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.planning.child_kinds import remove_pod_group
from railhead.planning.children import head_pod, prerequisites, removals, worker_pods
from railhead.planning.job import Job
from railhead.planning.plan import CopyConfigMap, Create
from railhead.resources.gangs.schedulers import SCHEDULERS
from tests.unit.builders import UID, make_job, make_spec

NAME = f"digits-{names.tag(UID)}-3"
TEMPLATE = {"spec": {"priorityClassName": "urgent"}, "metadata": {"annotations": {}}}


def make_gang_job(scheduler: str, **spec: Any) -> Job:
    return make_job(status={"attempt": 3}, spec=make_spec(scheduling={"gangScheduler": scheduler}, **spec))


def build_pod_groups(job: Job, *, attempt: int = 3) -> list[dict[str, Any]]:
    """Returns the job's PodGroup in all versions, the newest first."""
    found = []
    [create] = [each for each in prerequisites(job, attempt=attempt) if each.kind == "PodGroup"]
    assert not isinstance(create, CopyConfigMap)
    newest: Create | None = create
    while newest is not None:
        found.append(dict(newest.build()))
        newest = newest.older
    return found


def test_without_a_gang_scheduler_there_is_no_group() -> None:
    job = make_job()
    assert all(create.kind != "PodGroup" for create in prerequisites(job, attempt=1))
    assert "schedulingGroup" not in head_pod(job, attempt=1, workers=2).build()["spec"]
    assert remove_pod_group(job) == ()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_group_belongs_to_the_job_and_to_one_attempt(scheduler: str) -> None:
    for group in build_pod_groups(make_gang_job(scheduler)):
        metadata = group["metadata"]
        assert (group["kind"], metadata["name"]) == ("PodGroup", NAME)
        assert metadata["labels"][names.LABEL_ATTEMPT] == "3"
        assert metadata["ownerReferences"][0]["uid"] == UID


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("scaling", [{"numWorkers": 4}, {"minWorkers": 2, "maxWorkers": 8}], ids=["fixed", "elastic"])
def test_the_scheduler_waits_for_the_head_and_the_workers_without_which_nothing_trains(
    scheduler: str, scaling: dict[str, int]
) -> None:
    least = 1 + scaling.get("numWorkers", 2)
    for group in build_pod_groups(make_gang_job(scheduler, scaling=scaling)):
        spec = group["spec"]
        assert least == (spec["minMember"] if "minMember" in spec else spec["schedulingPolicy"]["gang"]["minCount"])


def test_a_gang_is_preempted_as_a_whole_and_has_its_pods_priority() -> None:
    newest, older = build_pod_groups(make_gang_job("PodGroup", podTemplate=TEMPLATE))
    assert (newest["apiVersion"], newest["spec"]["disruptionMode"]) == ("scheduling.k8s.io/v1beta1", {"all": {}})
    assert (older["apiVersion"], older["spec"]["disruptionMode"]) == ("scheduling.k8s.io/v1alpha2", "PodGroup")
    assert newest["spec"]["priorityClassName"] == older["spec"]["priorityClassName"] == "urgent"


@pytest.mark.parametrize("scheduler", ["PodGroup", "Volcano"])
def test_a_gang_has_the_priority_of_the_job(scheduler: str) -> None:
    spec = make_spec(scheduling={"gangScheduler": scheduler, "priorityClassName": "urgent"})
    for group in build_pod_groups(make_job(status={"attempt": 3}, spec=spec)):
        assert group["spec"]["priorityClassName"] == "urgent"


def test_kubernetes_own_scheduler_looks_for_a_domain_with_room_for_all() -> None:
    topology = {"key": "rack"}
    for policy, found in (("Required", {"topology": [topology]}), ("Preferred", None)):
        scheduling = {"gangScheduler": "PodGroup", "topology": {**topology, "policy": policy}}
        for group in build_pod_groups(make_job(status={"attempt": 3}, spec=make_spec(scheduling=scheduling))):
            assert group["spec"].get("schedulingConstraints") == found


def test_volcano_takes_the_queue_of_the_pods() -> None:
    template = {"spec": {}, "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "team-a"}}}
    [group] = build_pod_groups(make_gang_job("Volcano", podTemplate=template))
    assert group["spec"] == {"minMember": 3, "queue": "team-a"}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_all_pods_of_an_attempt_join_and_so_does_a_replacement(scheduler: str) -> None:
    job = make_gang_job(scheduler)
    creates = (
        head_pod(job, attempt=3, workers=2),
        *worker_pods(job, attempt=3, slots=(0, 1), round_=0),
        *worker_pods(job, attempt=3, slots=(1,), round_=1),
    )
    for pod in (create.build() for create in creates):
        joined = {
            "PodGroup": pod["spec"].get("schedulingGroup", {}).get("podGroupName"),
            "Coscheduling": pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group"),
            "Volcano": pod["metadata"]["annotations"].get("scheduling.k8s.io/group-name"),
        }
        assert {name: NAME if name == scheduler else None for name in SCHEDULERS} == joined
        default = {"Coscheduling": "scheduler-plugins-scheduler", "Volcano": "volcano"}
        assert pod["spec"].get("schedulerName") == default.get(scheduler)


@pytest.mark.parametrize("scheduler", ["Coscheduling", "Volcano"])
def test_a_template_may_name_the_scheduler_of_this_installation(scheduler: str) -> None:
    job = make_gang_job(scheduler, podTemplate={"spec": {"schedulerName": "ours"}})
    assert head_pod(job, attempt=1, workers=2).build()["spec"]["schedulerName"] == "ours"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_group_is_removed_with_the_jobs_children_in_each_version(scheduler: str) -> None:
    job = make_gang_job(scheduler)
    removed = {
        (each.name, version) for each in removals(job) if each.kind == "PodGroup" for version in each.api_versions
    }
    assert removed == {(NAME, group["apiVersion"]) for group in build_pod_groups(job)}
    assert remove_pod_group(replace(job, status=make_job().status)) == (), "before the first attempt there is none"
