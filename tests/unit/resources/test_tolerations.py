"""How long pods stay on a node that does not respond: a head for a minute, unless its template sets another time."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.resources.tolerations import KEYS, add_head_tolerations
from tests.unit.resources.test_pod import build

OWN = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60} for key in KEYS]
NOT_READY, UNREACHABLE = KEYS


def test_only_heads_have_tolerations() -> None:
    assert build("head")["spec"]["tolerations"] == OWN
    assert "tolerations" not in build("worker")["spec"], "Kubernetes' own five minutes"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], OWN),
        ([{"key": "gpu", "operator": "Exists"}], OWN),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 900}], OWN[1:]),
        ([{"key": UNREACHABLE, "operator": "Exists"}], OWN[:1]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], OWN),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], OWN),
        (["nonsense"], OWN),
    ],
)
def test_a_templates_toleration_replaces_ours_for_the_same_taint(given: list[Any], added: list[Any]) -> None:
    assert add_head_tolerations(given) == [*given, *added]


def test_reads_the_jobs_template_too() -> None:
    toleration = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    job: dict[str, Any] = {"podTemplate": {"spec": {"tolerations": [toleration]}}}
    assert build("head", **job)["spec"]["tolerations"] == [toleration, OWN[1]]
