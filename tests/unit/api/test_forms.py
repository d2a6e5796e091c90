"""A value of the wrong form gets words, not a regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from railhead.api.crd import build_crd
from railhead.api.forms import FORMS, put_into_words
from railhead.api.parsed_spec import InvalidSpec, parse_spec
from tests.unit.api.test_parsed_spec import SMALLEST


def list_patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for value in schema.values():
            yield from list_patterns(value)


def test_every_pattern_of_the_spec_has_its_words_and_no_other_has() -> None:
    spec = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(FORMS) == set(list_patterns(spec))


@pytest.mark.parametrize("pattern", FORMS)
def test_the_api_servers_message_has_the_words(pattern: str) -> None:
    message = (
        f"""spec.run.name: Invalid value: "a'b": spec.run.name in body should match '{pattern}', spec.image: ..."""
    )
    assert (
        put_into_words(message)
        == f"""spec.run.name: Invalid value: "a'b": spec.run.name {FORMS[pattern]}, spec.image: ..."""
    )


@pytest.mark.parametrize(
    ("wanted", "actual", "words"),
    [
        ("array", "string", "must be a list such as [a, b]; it is a text"),
        ("integer", "string", "must be a whole number without quotes; it is a text"),
        ("string", "integer", "must be a text; it is a whole number"),
        ("boolean", "string", "must be true or false without quotes; it is a text"),
        ("object", "array", "must be an object with fields; it is a list"),
        ("string", "boolean", "must be a text; it is true or false"),
    ],
)
def test_a_value_of_another_type_has_words(wanted: str, actual: str, words: str) -> None:
    """As Kubernetes 1.36 writes it, with the rules that it then leaves out."""
    value = f'spec.env: Invalid value: "{actual}": spec.env in body must be of type {wanted}: "{actual}"'
    rest = "some validation rules were not checked because the object was invalid; correct the existing errors to"
    message = f"[{value}, <nil>: Invalid value: null: {rest} complete validation]"
    assert put_into_words(message) == f'[spec.env: Invalid value: "{actual}": spec.env {words}]'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": {"storagePath": "runs"}}, r"^spec\.run\.storagePath: must be an absolute path such as /mnt/runs"),
        ({"image": "my image"}, r"^spec\.image: must be an image such as"),
        ({"imagee": "x"}, r"^spec\.imagee: there is no such field$"),
        ({"scaling": {"resourcesPerWorker": {"memory": "4GB"}}}, r"the unit is G or Gi, not GB"),
    ],
)
def test_an_invalid_spec_has_the_words(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        parse_spec({**SMALLEST, **change})
