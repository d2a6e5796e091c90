"""What spec.backoffLimit counts: the failures since training last made it full again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from railhead.api.status import parse_status
from railhead.planning.facts.charged_failures import count_charged

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING = {"type": "Running", "status": "True", "reason": "Training", "lastTransitionTime": "2026-01-01T11:59:00Z"}


@pytest.mark.parametrize(
    ("budget", "conditions", "committed", "expected"),
    [
        (None, [], 9, 2),
        ({"runningSeconds": 100, "checkpoint": 3}, [], 4, 0),
        ({"runningSeconds": 100, "checkpoint": 3}, [], 3, 2),
        ({"runningSeconds": 99, "checkpoint": 3}, [], 4, 2),
        ({"runningSeconds": 40, "checkpoint": 3}, [RUNNING], 4, 0),
    ],
)
def test_enough_training_with_a_newer_checkpoint_makes_it_full_again(
    budget: object, conditions: object, committed: int, expected: int
) -> None:
    status = parse_status({"restarts": {"application": 2}, "budget": budget, "conditions": conditions})
    assert count_charged(status, NOW, reset_seconds=100, committed=committed) == expected
