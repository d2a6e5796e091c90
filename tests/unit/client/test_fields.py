"""`railhead explain`: a field of the CRD."""

from __future__ import annotations

import pytest

from railhead.client.errors import ClientError, ExitCode
from railhead.client.fields import add_suggestions, explain_field


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


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("spec.trainLoopConfig", "spec.trainer.trainLoopConfig"),
        ("spec.scaling.workers", "spec.scaling.numWorkers or spec.scaling.minWorkers"),
        ("spec.run.storagepath", "spec.run.storagePath"),
        ("spec.podTemplate.spec.containers[0].resorces", "spec.podTemplate.spec.containers.resources"),
    ],
)
def test_a_refused_field_names_the_one_that_was_meant(unknown: str, meant: str) -> None:
    message = f'TrainJob in version "v1alpha1" cannot be handled: strict decoding error: unknown field "{unknown}"'
    assert add_suggestions(message) == f"{message}; did you mean {meant}?"


def test_a_refusal_without_a_similar_field_stays_as_it_is() -> None:
    for message in ('unknown field "spec.zzz"', "field is immutable"):
        assert add_suggestions(message) == message
