"""What is read of pods and events, whatever they hold."""

from __future__ import annotations

import pytest

from railhead.client.cluster.job_snapshot import read_pod
from railhead.json_object import Object
from tests.unit.client.jobs import make_event, make_job, make_pod, make_snapshot, make_waiting_container


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}, "", ""),
        (make_waiting_container("ErrImagePull", "no image"), "ErrImagePull", "no image"),
        ({"containerStatuses": [{"name": "ray", "state": {"waiting": {}}}]}, "", ""),
        (
            {"containerStatuses": [{"name": "ray", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]},
            "Completed",
            "",
        ),
        (
            {"initContainerStatuses": [{"name": "x", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]},
            "Error",
            "",
        ),
        ({"initContainerStatuses": [{"name": "x", "state": {"terminated": {"exitCode": 0}}}]}, "", ""),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}]},
            "Unschedulable",
            "m",
        ),
        ({"reason": "Evicted", "message": "disk"}, "Evicted", "disk"),
    ],
)
def test_why_a_pod_does_not_run(status: Object, reason: str, message: str) -> None:
    pod = read_pod(make_pod("p", slot=0, **status))
    assert (pod.reason, pod.message) == (reason, message)


def test_pods_are_ordered_by_attempt_then_head_then_slot() -> None:
    pods = [make_pod("old", attempt=1), make_pod("w1", slot=1, attempt=2), make_pod("head", attempt=2)]
    snapshot = make_snapshot(make_job(attempt=2), [*pods, make_pod("w0", slot=0, attempt=2)])
    assert [pod.name for pod in snapshot.pods] == ["head", "w0", "w1", "old"]
    assert [pod.name for pod in snapshot.current_pods] == ["head", "w0", "w1"]


def test_events_are_in_order_and_those_without_a_time_come_first() -> None:
    events = [make_event("Late", ""), make_event("None", "", at=""), make_event("Early", "", at="2026-11-25T09:00:00Z")]
    assert [event.reason for event in make_snapshot(make_job(), events=events).events] == ["None", "Early", "Late"]


def test_a_label_that_is_no_number_counts_as_none() -> None:
    pod = make_pod("p", slot=0)
    pod["metadata"]["labels"]["railhead.dev/slot"] = "9" * 5000
    assert read_pod(pod).slot == -1
