"""A job that rests is packed, and reads as if it were not."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api.parsed_spec import InvalidSpec, parse_spec
from railhead.api.status import parse_status
from railhead.controller.job_record import Content, record_job
from railhead.planning.observed import Announced
from tests.unit.builders import RUNNING_STATUS, SPEC
from tests.unit.controller.raws import make_job

COMPLETE = [{"type": "Complete", "status": "True", "reason": "Succeeded"}]
FINISHED = {**RUNNING_STATUS, "phase": "Succeeded", "conditions": COMPLETE}
INLINE = {**SPEC, "source": {"inline": {"train.py": "print('ä')"}}}


@pytest.mark.parametrize("status", [FINISHED, {"phase": "Suspended"}, RUNNING_STATUS])
def test_of_a_job_that_is_too_large_only_the_error_is_kept(status: Any) -> None:
    spec = {**SPEC, "podTemplate": {"metadata": {"annotations": {"large": "x" * 200_000}}}}
    record = record_job(make_job(spec=spec, status=status), None)
    assert isinstance(record.kept, Content)
    error = record.kept.spec
    assert isinstance(error, InvalidSpec)
    assert (error.__traceback__, error.__context__) == (None, None), "they would keep the spec"


@pytest.mark.parametrize(
    ("status", "rests"), [(FINISHED, True), ({"phase": "Suspended"}, True), (RUNNING_STATUS, False), (None, False)]
)
def test_a_job_that_is_finished_or_suspended_is_packed_and_reads_the_same(status: Any, rests: bool) -> None:
    record = record_job(make_job(spec=INLINE, status=status), None)
    assert isinstance(record.kept, bytes) is rests
    assert record.read() == Content(parse_spec(INLINE), parse_status(status))
    kept = parse_status(status)
    assert (record.phase, record.attempt, record.driver) == (kept.phase, kept.attempt, kept.driver)
    assert (record.is_finished, record.announced) == (kept.is_finished, Announced(kept.newest_index))


@pytest.mark.parametrize("status", [FINISHED, None])
@pytest.mark.parametrize("spec", [None, "text", {**SPEC, "unknown": 1}])
def test_an_invalid_spec_is_read_as_one(spec: Any, status: Any) -> None:
    found = record_job(make_job(spec=spec, status=status), None).read().spec
    assert isinstance(found, InvalidSpec)


def test_a_job_that_acts_again_is_parsed_once() -> None:
    rested = record_job(make_job(1, status={"phase": "Suspended"}), None)
    resumed = record_job(make_job(2, generation=2, status={"phase": "Suspended"}), rested)
    active = record_job(make_job(3, generation=2, status=RUNNING_STATUS), resumed)
    later = record_job(make_job(4, generation=2, status=RUNNING_STATUS), active)
    assert later.read().spec is active.read().spec
