"""What a job's time was spent on."""

from __future__ import annotations

from railhead.api.goodput import LostSeconds
from railhead.api.status import parse_status
from railhead.client.explain.lost_time import PRODUCTIVE, TITLES, divide_time

SPENT = {"wallSeconds": 200, "productiveSeconds": 150, "lostSeconds": {"starting": 10, "retrained": 40}}


def test_the_parts_add_up_and_the_most_expensive_loss_comes_first() -> None:
    parts = divide_time(parse_status({"goodput": SPENT}))
    assert [(part.cause, part.seconds, part.share) for part in parts] == [
        (PRODUCTIVE, 150, 0.75),
        ("retrained", 40, 0.2),
        ("starting", 10, 0.05),
    ]


def test_a_job_without_counted_time_has_no_parts() -> None:
    assert divide_time(parse_status({})) == []
    assert divide_time(parse_status({"goodput": {"wallSeconds": 0}})) == []


def test_each_cause_has_a_title() -> None:
    assert set(TITLES) == {PRODUCTIVE, *LostSeconds.model_fields}
