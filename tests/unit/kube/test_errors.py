"""Responses of the API server become one of four outcomes, whatever their body."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter, classify_response

STATUS = json.dumps({"kind": "Status", "reason": "Expired", "message": "too old resource version"}).encode()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Denied),
        (401, Denied),
        (403, Denied),
        (404, Gone),
        (405, Denied),
        (409, Conflict),
        (410, Gone),
        (413, Denied),
        (415, Denied),
        (422, Denied),
        (429, RetryAfter),
        (500, RetryAfter),
        (503, RetryAfter),
        (504, RetryAfter),
    ],
)
def test_each_code_has_one_of_four_outcomes(status: int, outcome: type[KubeError]) -> None:
    error = classify_response(status, STATUS)
    assert type(error) is outcome
    assert (error.status, error.reason, error.message) == (status, "Expired", "too old resource version")
    assert str(error) == f"{status} Expired: too old resource version"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"<html>bad gateway</html>", "<html>bad gateway</html>"),
        (b'["a list"]', '["a list"]'),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"message": null, "reason": null}', '{"message": null, "reason": null}'),
        (b"x" * 10_000, "x" * 300),
    ],
)
def test_a_body_that_is_no_status_becomes_the_message(body: bytes, message: str) -> None:
    error = classify_response(502, body)
    assert (error.reason, error.message) == ("", message)


@given(st.integers(400, 599), st.binary(max_size=50), st.none() | st.text(max_size=8))
def test_any_response_has_an_outcome(status: int, body: bytes, retry_after: str | None) -> None:
    assert classify_response(status, body, retry_after=retry_after).status == status


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("86400", 60.0),
        (None, None),
        ("", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("-1", None),
    ],
)
def test_retry_after_is_kept_when_it_is_a_number(header: str | None, seconds: float | None) -> None:
    error = classify_response(429, STATUS, retry_after=header)
    assert isinstance(error, RetryAfter)
    assert error.seconds == seconds


def test_non_ascii_digits_are_no_seconds() -> None:
    error = classify_response(429, b"", retry_after="²")
    assert isinstance(error, RetryAfter)
    assert error.seconds is None


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            'Pod "a" is invalid: metadata.labels: Invalid value: "hunter2 is my password": a valid label must be',
            'Pod "a" is invalid: metadata.labels: Invalid value: (hidden): a valid label must be',
        ),
        (
            '[a: Duplicate value: {"a":1}, b: Invalid value: 3: no]',
            "[a: Duplicate value: (hidden), b: Invalid value: (hidden): no]",
        ),
        (r'x: Invalid value: "a\"b: c\\": must', "x: Invalid value: (hidden): must"),
        (
            'x: Invalid value: "a: b", y: Invalid value: "c": no',
            "x: Invalid value: (hidden), y: Invalid value: (hidden): no",
        ),
        ("x: Invalid value: 12: must be less", "x: Invalid value: (hidden): must be less"),
        ('x: Invalid value: {"name":"a: b","v":[1]}: must', "x: Invalid value: (hidden): must"),
        ('x: Invalid value: core.EnvVar{Name:"A", Value:"a: } b"}: may not', "x: Invalid value: (hidden): may not"),
        ('x: Duplicate value: {"name":"A"}', 'x: Duplicate value: (hidden)'),
        ('x: Duplicate value: "s3cret"', "x: Duplicate value: (hidden)"),
        ('x: Not found: "s3cret"', "x: Not found: (hidden)"),
        (
            'x: Unsupported value: "s3cret": supported values: "A", "B"',
            'x: Unsupported value: (hidden): supported values: "A", "B"',
        ),
        ('x: Invalid value: "cut off within', "x: Invalid value: (hidden)"),
        ('x: Invalid value: "a: Invalid value: \\"b\\": c": d', "x: Invalid value: (hidden): d"),
        ("x: Invalid value: field is immutable", "x: Invalid value: field is immutable"),
        ("exceeded quota: q, requested: pods=1", "exceeded quota: q, requested: pods=1"),
    ],
)  # fmt: skip
def test_values_that_the_api_server_quotes_are_hidden(message: str, shown: str) -> None:
    body = json.dumps({"message": message}).encode()
    assert classify_response(422, body, hides_values=True).message == shown
    assert classify_response(422, body).message == message
