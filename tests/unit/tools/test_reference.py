"""The columns of the reference that are written from the CRD and the rules of changes."""

from __future__ import annotations

import pytest
from tools.reference import describe_change, describe_type, find_field, write_columns

SCHEMA = {
    "properties": {
        "spec": {
            "properties": {
                "image": {"type": "string"},
                "scaling": {"type": "object", "properties": {"numWorkers": {"type": "integer"}}},
                "env": {"type": "array", "items": {"properties": {"name": {"type": "string"}}}},
            }
        },
        "status": {"properties": {"m": {"additionalProperties": {"properties": {"x": {"type": "number"}}}}}},
    }
}


@pytest.mark.parametrize(
    ("path", "when"),
    [
        ("spec.suspend", "any time"),
        ("spec.failurePolicy.rules[].action", "any time"),
        ("spec.scaling.desiredWorkers", "any time"),
        ("spec.env[].name", "suspended"),
        ("spec.trainer.trainLoopConfig", "suspended"),
        ("spec.scaling", "in part"),
        ("spec.run.storagePath", "never"),
    ],
)
def test_the_change_follows_from_the_rules(path: str, when: str) -> None:
    assert describe_change(path) == when


def test_fields_are_found_in_lists_and_maps() -> None:
    assert describe_type(find_field(SCHEMA, "spec.env")) == "list"
    assert describe_type(find_field(SCHEMA, "spec.env[].name")) == "string"
    assert describe_type(find_field(SCHEMA, "status.m.<name>.x")) == "number"


def test_only_the_computed_columns_of_a_row_are_written() -> None:
    rows = [
        "text",
        "| `spec.image` | ? | required |  | ? | An image, or `a`. |",
        "| `spec.scaling.numWorkers` | ? | `1` | 1 | ? | N |",
    ]
    written = write_columns("\n".join(rows), SCHEMA)
    assert written.splitlines() == [
        "text",
        "| `spec.image` | string | required |  | suspended | An image, or `a`. |",
        "| `spec.scaling.numWorkers` | integer | `1` | 1 | never | N |",
    ]
    assert write_columns(written, SCHEMA) == written
