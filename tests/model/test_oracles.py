"""An oracle accepts what a fault may cause, and nothing beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api.goodput import LostSeconds
from tests.model.api_server import JOBS, ModelApiServer
from tests.model.oracles import check_goodput
from tests.unit.builders import NOW

JOB = (JOBS, "default", "digits")


def spend(seconds: int) -> dict[str, Any]:
    """The operation that writes goodput that many seconds after the start."""
    lost = LostSeconds(pods_pending=seconds).model_dump(by_alias=True)
    goodput = {
        "time": f"2026-01-01T12:00:{seconds:02}Z",
        "wallSeconds": seconds,
        "productiveSeconds": 0,
        "lostSeconds": lost,
        "gpuSeconds": 0,
        "lostGPUSeconds": 0,
    }
    return {"op": "add", "path": "/status/goodput", "value": goodput}


def make_api(*writes: list[dict[str, Any]]) -> ModelApiServer:
    api = ModelApiServer(lambda: NOW)
    api.create(JOB, {"metadata": {"name": "digits"}, "spec": {}})
    for operations in writes:
        api.patch(JOB, operations, subresource="status", content_type="application/json-patch+json")
    return api


def test_a_write_whose_answer_was_lost_may_be_repeated_later() -> None:
    phase = {"op": "add", "path": "/status/phase", "value": "Pending"}
    check_goodput(make_api([phase, spend(1)], [phase, spend(6)]))


def test_time_that_passes_is_no_reason_for_a_write() -> None:
    test = {"op": "test", "path": "/status/attempt", "value": 0}
    with pytest.raises(AssertionError, match="no reason for a write"):
        check_goodput(make_api([test, spend(1)]), operators=2)
