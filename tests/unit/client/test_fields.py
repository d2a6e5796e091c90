"""`railhead explain`: a field of the CRD."""

from __future__ import annotations

import pytest

from railhead.client.errors import ClientError, ExitCode
from railhead.client.fields import explain_field


@pytest.mark.parametrize(
    ("path", "type_", "limits"),
    [
        ("spec.scaling.numWorkers", "integer", ("at least 1", "at most 4096")),
        ("scaling.numWorkers", "integer", ("at least 1", "at most 4096")),
        ("image", "string, required", ()),
        ("scaling.resourcesPerWorker", "map of quantity or number", ()),
        ("status.attempts", "list of object", ("items at most 10",)),
        ("status.attempts.class", "string", ()),
        ("status.attempts[].class", "string", ()),
        ("hangPolicy", "string", ("default Warn", "one of Warn, Restart")),
    ],
)
def test_a_field_has_its_type_and_its_limits(path: str, type_: str, limits: tuple[str, ...]) -> None:
    field = explain_field(path)
    assert (field.type, field.limits) == (type_, limits)
    assert field.description


def test_an_object_has_its_fields() -> None:
    assert "image" in dict(explain_field("spec").fields)
    assert dict(explain_field("").fields).keys() >= {"spec", "status"}


@pytest.mark.parametrize(
    ("path", "hint"),
    [("scaling.numWorker", "did you mean numWorkers"), ("spec.scaling.numWorkers.x", "its parent has no fields")],
)
def test_an_unknown_field_names_similar_ones(path: str, hint: str) -> None:
    with pytest.raises(ClientError, match=hint) as error:
        explain_field(path)
    assert error.value.code == ExitCode.NOT_FOUND
