"""The fields that an unknown one may have been meant to be."""

from __future__ import annotations

import pytest

from railhead.client.fields import add_suggestions


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
