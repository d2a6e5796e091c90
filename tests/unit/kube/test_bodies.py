"""The faster JSON gives what the standard library's gives; a patch tests first, and can remove any field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.kube.bodies import build_patch, decode, encode
from tests.model.patches import Object, apply_operations

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
RUNNING: Object = {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}


@given(VALUES)
def test_what_is_encoded_is_decoded_to_the_same(value: Any) -> None:
    for data in (encode(value), json.dumps(value).encode()):
        assert repr(decode(data)) == repr(json.loads(data)) == repr(value)


@pytest.mark.parametrize("levels", [199, 200, 201, 900])
def test_deep_values_are_no_exception(levels: int) -> None:
    data = b'{"a":' * levels + b"1" + b"}" * levels
    assert decode(data) == json.loads(data)
    assert json.loads(encode(decode(data))) == json.loads(data)


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"{", b'{"a": 1} {', b'"\xff"', b"\xff\xfe"], ids=lambda data: repr(data)
)
def test_what_is_not_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_a_lone_surrogate_is_kept() -> None:
    assert decode(encode("\ud800")) == "\ud800"


def test_the_tests_come_first() -> None:
    assert build_patch({"/metadata/uid": "u"}, {"phase": "Failed"}, under="/status") == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": "/status/phase", "value": "Failed"},
    ]


@pytest.mark.parametrize("known", [{}, {"failure": {"class": "Hang"}}], ids=["no such field", "a field"])
def test_a_field_without_a_value_is_removed_whether_or_not_it_exists(known: Object) -> None:
    patch = build_patch({}, {"failure": None}, under="/status")
    assert apply_operations({**RUNNING, "status": {**RUNNING["status"], **known}}, patch) == RUNNING
