"""What is cut, and that it follows the bounds of the model alone."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from railhead.api.conditions import Condition
from railhead.api.fit import fit, read_limit
from railhead.api.goodput import SpentStatus
from railhead.api.model import StatusModel, message_field, optional, text_field, time_field
from railhead.api.schema import build_schema
from railhead.api.slow_ranks import SlowRankStatus
from railhead.api.status import (
    CheckpointStatus,
    DriverWarning,
    FailureStatus,
    OutcomeStatus,
    RestartStatus,
    ResumedFromStatus,
)
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.numbers import MAX_INT32
from railhead.contract.report import (
    CommittedCheckpoint,
    ReportedOutcome,
    RestartInPlace,
    ResumedFrom,
    RunWarning,
    SlowRank,
)
from railhead.contract.spent import Spent

BY_OPERATOR = {"attempt", "pod", "node", "container", "exit_code", "suspect_node", "action", "time"}
# What a driver sends, the part of the status that it becomes, other names there, and what the operator adds.
MIRRORS: list[tuple[type, type[BaseModel], dict[str, str], set[str]]] = [
    (Spent, SpentStatus, {}, set()),
    (SlowRank, SlowRankStatus, {}, {"node"}),
    (RestartInPlace, RestartStatus, {"cause": "class_"}, set()),
    (ReportedOutcome, OutcomeStatus, {}, set()),
    (RunWarning, DriverWarning, {}, set()),
    (ResumedFrom, ResumedFromStatus, {}, set()),
    (CommittedCheckpoint, CheckpointStatus, {}, set()),
    (Failure, FailureStatus, {}, BY_OPERATOR),
]


class Inner(StatusModel):
    word: str = text_field("A word.", 3)


class Outer(StatusModel):
    word: str = text_field("A word.", 5)
    message: str = message_field("Lines.", 7)
    number: int = 0
    percent: int | None = optional("A percentage.", le=100)
    index: int = Field(default=0, ge=-2)
    before: int = -1
    large: int = Field(default=0, json_schema_extra={"format": "int64"})
    time: str | None = time_field("A time.")
    words: list[Annotated[str, Field(max_length=2)]] | None = optional("Words.", max_length=2)
    inner: Inner | None = optional("A part.")
    inners: list[Inner] = Field(default_factory=list, max_length=1)
    counts: dict[Annotated[str, Field(max_length=2)], Annotated[int, Field(le=9)]] = Field(
        default_factory=dict, max_length=2
    )


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"word": "abcdefgh"}, {"word": "abcde"}),
        ({"word": "a\nb\x1b"}, {"word": "a b\ufffd"}),
        ({"message": "a\nb\x1bcdefgh"}, {"message": "a\nb\ufffdcde"}),
        ({"number": 2**40}, {"number": MAX_INT32}),
        ({"number": -1}, {"number": 0}),
        ({"percent": 101}, {"percent": 100}),
        ({"percent": None}, {"percent": None}),
        ({"index": -5}, {"index": -2}),
        ({"before": -5}, {"before": -1}),
        ({"large": 2**40}, {"large": 2**40}),
        ({"time": "2026-01-01T00:00:00Z"}, {"time": "2026-01-01T00:00:00Z"}),
        ({"time": "yesterday"}, {"time": None}),
        ({"words": ("abc", "d", "e")}, {"words": ["ab", "d"]}),
        ({"inner": {"word": "abcd"}}, {"inner": {"word": "abc"}}),
        ({"inners": [{"word": "abcd"}, {}]}, {"inners": [{"word": "abc"}]}),
        ({"inners": [Inner(word="abc"), Inner()]}, {"inners": [{"word": "abc"}]}),
        ({"counts": {"abc": 10, "d": 1, "e": 1}}, {"counts": {"ab": 9, "d": 1}}),
    ],
)
def test_each_value_is_cut_to_the_bounds_of_its_field(values: dict[str, object], found: dict[str, object]) -> None:
    assert fit(Outer, values).model_dump(include=set(values)) == found


@pytest.mark.parametrize("limit", [1, 10, 1000])
def test_another_bound_in_the_model_is_another_cut(limit: int) -> None:
    class Bounded(BaseModel):
        text: str = Field(max_length=limit)
        items: list[int] = Field(max_length=limit)
        number: int = Field(le=limit)

    found = fit(Bounded, {"text": "a" * 2000, "items": [1] * 2000, "number": 2000})
    assert (len(found.text), len(found.items), found.number) == (limit, limit, limit)
    assert read_limit(Bounded, "text") == limit


def test_a_value_that_the_model_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="wrod"):
        fit(Outer, {"wrod": "a"})


def test_a_failure_class_of_another_version_counts_as_infrastructure() -> None:
    assert fit(RestartStatus, {"class_": "Unheard"}).class_ is FailureClass.INFRASTRUCTURE
    assert fit(RestartStatus, {"class_": FailureClass.HANG}).class_ is FailureClass.HANG


@given(st.text() | st.just("x" * 5000), st.integers())
def test_whatever_a_failure_says_the_status_takes_it(text: str, number: int) -> None:
    values = dict.fromkeys(("reason", "message", "pod", "node", "container", "suspect_pod", "time"), text)
    found = fit(FailureStatus, {**values, "attempt": number, "exit_code": number})
    assert FailureStatus.model_validate(found.model_dump()) == found
    assert 0 <= found.attempt <= MAX_INT32


def test_the_crd_has_no_trace_of_lines() -> None:
    assert "lines" not in build_schema(Condition)["properties"]["message"]


@pytest.mark.parametrize(("sent", "model", "renamed", "added"), MIRRORS, ids=lambda each: getattr(each, "__name__", ""))
def test_the_status_has_each_field_that_is_sent(
    sent: type, model: type[BaseModel], renamed: dict[str, str], added: set[str]
) -> None:
    names = {renamed.get(each.name, each.name) for each in fields(sent)}
    assert names | added == set(model.model_fields) and not names & added
