"""What a namespace's quotas leave for a job."""

from __future__ import annotations

from decimal import Decimal

from railhead.client.submit.quotas import describe_quota, sum_pods
from railhead.json_object import Object


def make_pod(**resources: Object) -> Object:
    return {"kind": "Pod", "spec": {"containers": [{"resources": resources}, {}]}}


def make_quota(hard: Object, used: Object) -> Object:
    return {"metadata": {"name": "team"}, "status": {"hard": hard, "used": used}}


def test_the_pods_of_a_job_are_added_up_by_the_names_of_a_quota() -> None:
    one = make_pod(requests={"cpu": "500m", "nvidia.com/gpu": "2"}, limits={"memory": "1Gi"})
    assert sum_pods([one, one, make_pod(requests={"cpu": "1e3"})]) == {
        "pods": 3,
        "requests.cpu": 1,
        "cpu": 1,
        "requests.nvidia.com/gpu": 4,
        "limits.memory": 2 * 2**30,
    }


def test_what_is_left_stands_next_to_what_is_too_little() -> None:
    hard = {"requests.nvidia.com/gpu": "8", "memory": "64Gi", "pods": "10", "services": "5"}
    quota = make_quota(hard, {"requests.nvidia.com/gpu": "6", "memory": "32Gi", "pods": "11"})
    needs = {"requests.nvidia.com/gpu": Decimal(4), "memory": Decimal(32 * 2**30), "pods": Decimal(3)}
    assert describe_quota(quota, needs) == (
        "team: requests.nvidia.com/gpu 2 of 8 left, but the job takes 4, memory 32Gi of 64Gi left, "
        "pods 0 of 10 left, but the job takes 3"
    )


def test_a_quota_of_other_things_and_one_in_another_form_limit_nothing() -> None:
    for hard in ({"services": "5"}, {"pods": "1e3"}, {}):
        assert describe_quota(make_quota(hard, {}), {"pods": Decimal(3)}).endswith(
            "limits nothing that the job requests"
        )
    assert describe_quota({"metadata": {"name": "new"}}, {}).startswith("new: ")
