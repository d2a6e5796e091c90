"""A status change has the fields of the status, with their types; unset ones stay as they are."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from railhead.api.status import JobStatus, WorkersStatus
from railhead.planning.status_change import (
    GUARD,
    STATUS_FIELDS,
    Requirement,
    StatusChange,
    Unset,
    build_fields,
    build_status_write,
    changes_anything,
)
from tests.unit.builders import RUNNING_STATUS, make_observed

# Set by the status write itself.
AUTOMATIC = {"observed_generation", "conditions"}


def test_it_can_change_every_field_of_the_status() -> None:
    assert {*STATUS_FIELDS, *AUTOMATIC} == set(JobStatus.model_fields)


@pytest.mark.parametrize("name", STATUS_FIELDS)
def test_a_field_has_the_same_type_as_in_the_status(name: str) -> None:
    here = set(get_args(get_type_hints(StatusChange)[name])) - {Unset}
    there = get_type_hints(JobStatus)[name]
    allowed = set(get_args(there)) or {there}
    if len(here) == 1 and str(there).startswith("typing.Literal"):
        allowed = {there}
    assert here <= allowed, f"{here} is not in {allowed}"


def test_unchanged_fields_are_not_written() -> None:
    status = make_observed(status=RUNNING_STATUS).status
    same = StatusChange(phase="Running", workers=WorkersStatus(desired=2, ready=2, joined=2))
    assert build_fields(status, same) == {}
    assert build_fields(status, StatusChange(waiting=None, resize=None)) == {}


def test_without_a_change_only_a_guard_is_compared() -> None:
    observed = make_observed(status=RUNNING_STATUS)
    assert build_status_write(observed, StatusChange()) is None
    assert not changes_anything(observed, StatusChange())
    write = build_status_write(observed, GUARD.requiring(Requirement.SAME_DESIRED_WORKERS))
    assert write is not None and not write.fields
    assert write.tests["/status/workers/desired"] == 2
