"""What `railhead stacks` makes of the head pod's answer."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from railhead.client.errors import ClientError
from railhead.client.stacks import RankStack, group_stacks, parse_stacks


def rank(number: int, place: str, text: str = "s") -> RankStack:
    return RankStack(number, f"w-{number}" if place else "", place, text if place else "")


def test_the_smallest_group_of_ranks_comes_first_and_each_stack_once() -> None:
    stacks = [
        *(rank(number, "at t.py:9 in step") for number in (0, 2, 3)),
        rank(1, "at t.py:4 in load", "x"),
        rank(4, ""),
    ]
    assert group_stacks(stacks) == [
        ("rank 1 (pod w-1): at t.py:4 in load", "x"),
        ("rank 4: does not respond: native code holds the GIL, or the process is stopped", ""),
        ("ranks 0 and 2-3: at t.py:9 in step", "s"),
    ]


def test_the_answer_is_read_in_the_order_of_ranks() -> None:
    stacks = [rank(0, "at a"), rank(1, ""), rank(2, "at b")]
    assert parse_stacks(json.dumps([asdict(each) for each in reversed(stacks)]), "h") == stacks


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no JSON",
        "{}x",
        "3",
        "[3]",
        "[[" * 100_000,
        '[{"rank": 0}]',
        '[{"rank": true, "pod": "", "place": "", "text": ""}]',
        '[{"rank": "0", "pod": "", "place": "", "text": ""}]',
        '[{"rank": 0, "pod": "", "place": {}, "text": ""}]',
    ],
)
def test_a_pod_that_answers_anything_else_is_named(output: str) -> None:
    with pytest.raises(ClientError, match="pod h answers with something that is no list of stacks"):
        parse_stacks(output, "h")
