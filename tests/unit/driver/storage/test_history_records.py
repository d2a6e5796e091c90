"""What a report becomes in a run's history, whatever training reports: bounded, JSON, without credentials."""

from __future__ import annotations

import json
import math
import os
import time
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.history_format import read_line, write_line
from railhead.contract.times import parse_time
from railhead.driver.storage.history_records import METRICS_BYTES, build_metrics, hide, stamp
from tests.unit.driver.test_secrets import ENVIRONMENT, MARK, TEXT

LINE_BYTES = 64 << 10


class Broken:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def keep(value: Any) -> Any:
    return build_metrics({"m": value})["metrics"].get("m", "omitted")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (0.1234567890123, 0.1234567890123),
        (7, 7),
        (True, True),
        (None, None),
        ("text", "text"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (numpy.float32(0.5), 0.5),
        (numpy.int64(3), 3),
        (numpy.bool_(True), True),
        (numpy.array([1.5]), 1.5),
        (numpy.float64("nan"), "NaN"),
        (numpy.zeros(3), "<ndarray>"),
        ({"a": {1: [2, (3.5,)]}}, {"a": {"1": [2, [3.5]]}}),
        (Decimal(1), "<Decimal>"),
        (b"x", "<bytes>"),
        (object, "<type>"),
        pytest.param(10**400, 10**400, id="a large number"),
        pytest.param(10**5000, "omitted", id="a huge number"),
        ("x" * 10_001, "omitted"),
        ("\ud800", "\\ud800"),
        pytest.param(Broken(), "omitted", id="broken"),
    ],
)
def test_numbers_stay_as_they_are(value: Any, kept: Any) -> None:
    assert keep(value) == kept


def test_a_value_that_contains_itself_is_left_out() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert build_metrics({"loop": loop, "loss": 1.0}) == {"metrics": {"loss": 1.0}, "omitted": 1}


def test_a_metric_that_is_too_large_costs_no_other_one() -> None:
    began = time.monotonic()
    record = build_metrics({"a": [0] * 10_000_000, "loss": 1.0, "b": {str(n): n for n in range(100_000)}, "acc": 2})
    assert record == {"metrics": {"loss": 1.0, "acc": 2}, "omitted": 2}
    assert time.monotonic() - began < 5, "it stops at the bound, however large the list"


def test_a_report_has_at_most_64_kib() -> None:
    record = build_metrics({f"metric-{number:05d}": float(number) for number in range(9000)})
    line = write_line({**stamp(2**31), "report": 2**31, "workers": 4096, "step": 2**62, **record})
    assert len(line) <= LINE_BYTES
    assert record["omitted"] == 9000 - len(record["metrics"]) > 0
    assert len(json.dumps(record["metrics"], ensure_ascii=False).encode()) > METRICS_BYTES * 0.7


def test_the_time_has_milliseconds() -> None:
    found = stamp(3)
    assert found["attempt"] == 3 and parse_time(found["time"]) is not None and found["time"][-5:-4] == "."


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
SECRET = st.sampled_from([TEXT, *ENVIRONMENT.values()])
NAMES = st.text(max_size=5) | SECRET
VALUES = st.recursive(
    PLAIN | SECRET, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=9
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_no_report_keeps_a_credential(metrics: dict[str, Any]) -> None:
    with mock.patch.dict(os.environ, ENVIRONMENT):
        line = write_line({**stamp(1), **build_metrics(metrics)})
    assert MARK.encode() not in line and len(line) <= LINE_BYTES
    assert read_line(line) is not None and line.count(b"\n") == 1


@pytest.mark.usefixtures("credentials")
def test_a_secret_with_characters_that_json_escapes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", 'qu"ote\\line\nénd')
    record = build_metrics({"note": 'it is qu"ote\\line\nénd.', "loss": 1.0})
    assert record["metrics"] == {"note": "it is (hidden).", "loss": 1.0}


@pytest.mark.usefixtures("credentials")
def test_no_transition_keeps_a_credential() -> None:
    assert MARK not in str(hide({"event": "failure", "message": TEXT, "pods": [TEXT], "rank": 3}))
