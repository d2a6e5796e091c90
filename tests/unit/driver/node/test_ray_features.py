"""The Ray version that a job needs, checked before Ray starts."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.driver.node.ray_features import (
    drop_unsupported_defaults,
    explain_ray_problem,
    warn_without_notices,
)
from tests.ray.pods import make_job


@pytest.mark.parametrize(
    ("version", "is_rejected"),
    [
        ("2.51.1", True),
        ("2.9.0", True),
        ("1.13", True),
        ("2.52.0", False),
        ("2.60.0", False),
        ("3.0.0.dev0", False),
        ("odd", False),
    ],
)
def test_rejects_an_old_ray_with_a_clear_message(version: str, is_rejected: bool) -> None:
    problem = explain_ray_problem(version, make_job())
    assert bool(problem) is is_rejected
    if is_rejected:
        assert version in problem
        assert "spec.image" in problem


def make_scaling(**more: Any) -> dict[str, Any]:
    return {**make_job().scaling, **more}


# The job's fields, the field named, the newest Ray without it and the oldest with it.
FEATURES = [
    ({"scaling": make_scaling(rayLabelSelector={"pool": "a"})}, "scaling.rayLabelSelector", "2.54.9", "2.55.0"),
    ({"validation_function": "user:validate"}, "trainer.validationFunction", "2.53.0", "2.54.0"),
    ({"scaling": make_scaling(minWorkers=1, maxWorkers=2)}, "scaling.minWorkers", "2.54.9", "2.55.0"),
    ({"drain_seconds": 30, "is_drain_required": True}, "worker.drainSeconds", "2.57.0", "2.58.0"),
    ({"log_level": "DEBUG"}, "run.logLevel", "2.55.1", "2.56.0"),
]


@pytest.mark.parametrize(("fields", "field", "lacks", "has"), FEATURES, ids=[f[1] for f in FEATURES])
def test_rejects_unsupported_fields_by_name(fields: dict[str, Any], field: str, lacks: str, has: str) -> None:
    problem = explain_ray_problem(lacks, make_job(**fields))
    assert problem.startswith(f"{field} needs Ray {has.rpartition('.')[0]} or newer, but spec.image has Ray {lacks}")
    assert explain_ray_problem(has, make_job(**fields)) == ""
    assert explain_ray_problem(lacks, make_job()) == ""


@pytest.mark.parametrize(("version", "seconds"), [("2.57.1", 0), ("2.58.0", 30), ("odd", 30)])
def test_drops_the_default_drain_if_ray_does_not_support_it(version: str, seconds: int) -> None:
    assert explain_ray_problem(version, make_job(drain_seconds=30)) == ""
    assert drop_unsupported_defaults(version, make_job(drain_seconds=30)).drain_seconds == seconds
    job = make_job(drain_seconds=30, is_drain_required=True)
    assert drop_unsupported_defaults(version, job) == job


def test_warns_of_an_older_ray_when_the_job_wants_a_last_checkpoint() -> None:
    warning = warn_without_notices("2.57.1", end_seconds=60)
    assert warning is not None and warning.reason == "EndNotAnnounced"
    for expected in ("Ray 2.57.1", "keep only the last committed checkpoint", "Ray 2.58 or newer"):
        assert expected in warning.message
    assert warn_without_notices("2.57.1", end_seconds=0) is None
    assert warn_without_notices("2.58.0", end_seconds=60) is None
