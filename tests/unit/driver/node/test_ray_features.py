"""Which Ray a job needs, said before Ray is started."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.driver.node.ray_features import explain_ray_problem
from tests.ray.pods import make_job


@pytest.mark.parametrize(
    ("version", "is_refused"),
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
def test_old_ray_is_refused_in_words(version: str, is_refused: bool) -> None:
    problem = explain_ray_problem(version, make_job())
    assert bool(problem) is is_refused
    if is_refused:
        assert version in problem
        assert "spec.image" in problem


def make_scaling(**more: Any) -> dict[str, Any]:
    return {**make_job().scaling, **more}


# What a job asks for, the newest Ray that lacks it and the oldest that has it.
FEATURES = [
    ({"scaling": make_scaling(rayLabelSelector={"pool": "a"})}, "scaling.rayLabelSelector", "2.54.9", "2.55.0"),
    ({"validation_function": "user:validate"}, "trainer.validationFunction", "2.53.0", "2.54.0"),
    ({"scaling": make_scaling(minWorkers=1, maxWorkers=2)}, "scaling.minWorkers", "2.54.9", "2.55.0"),
    ({"drain_seconds": 30}, "worker.drainSeconds", "2.57.0", "2.58.0"),
    ({"log_level": "DEBUG"}, "run.logLevel", "2.55.1", "2.56.0"),
]


@pytest.mark.parametrize(("asked", "field", "lacks", "has"), FEATURES, ids=[f[1] for f in FEATURES])
def test_what_this_ray_cannot_do_is_refused_by_its_field(
    asked: dict[str, Any], field: str, lacks: str, has: str
) -> None:
    problem = explain_ray_problem(lacks, make_job(**asked))
    assert problem.startswith(f"{field} needs Ray {has.rpartition('.')[0]} or newer, but spec.image has Ray {lacks}")
    assert explain_ray_problem(has, make_job(**asked)) == ""
    assert explain_ray_problem(lacks, make_job()) == ""
