"""What a token says of itself: read without trust, and without an error whatever it holds."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.report import AUDIENCE
from railhead.controller.report.claims import MOST_CHARS, Claims, read_claims
from tests.model.faults import NOON
from tests.unit.controller.report.facts import SPEAKER, encode, make_token

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_a_token_of_the_api_server_names_its_pod_and_its_end() -> None:
    assert read_claims(make_token()) == Claims(SPEAKER, NOON.timestamp() + 3600)
    assert read_claims(make_token(aud=AUDIENCE)), "one audience need not be a list"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": []},
        {"aud": None},
        {"aud": {AUDIENCE: 1}},
        {"exp": None},
        {"exp": "1"},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": -1},
        {"exp": 10**400},
        {"names": "none"},
        {"names": []},
        {"names": {"namespace": "", "pod": {"name": "a", "uid": "b"}}},
        {"names": {"namespace": "ns", "pod": "a"}},
        {"names": {"namespace": "ns", "pod": {"name": ["a"], "uid": "b"}}},
    ],
    ids=str,
)
def test_anything_else_is_no_token_for_the_endpoint(claims: dict[str, Any]) -> None:
    assert read_claims(make_token(**claims)) is None


def test_a_large_token_and_deep_nesting_are_no_tokens() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 5000).decode()
    assert read_claims(f"a.{deep}.c") is None
    assert read_claims(make_token(padding="x" * MOST_CHARS)) is None


@given(st.text() | st.builds(lambda values: f"a.{encode(values)}.c", JSON))
def test_reading_never_raises(token: str) -> None:
    assert read_claims(token) is None


@given(JSON, JSON, JSON)
def test_reading_never_raises_on_values_of_any_kind(audience: Any, expires: Any, names: Any) -> None:
    assert read_claims(make_token(aud=audience, exp=expires, names=names)) is None
