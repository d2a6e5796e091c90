"""The JSON Schemas of the commands' output, compared with what the commands print."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from tools.cli_reference import find_commands
from tools.cli_schemas import build_schema, build_schemas

from railhead.cli.parser import build_parser
from railhead.client.outputs import OUTPUTS
from tests.unit.cli.screens import JOBS, RUNS, show

SHOWN = [command for command in OUTPUTS if command in RUNS]  # tests/unit/cli/test_results has the others
COMMANDS = [
    ["list"],
    ["list", "-A"],
    ["top"],
    ["doctor"],
    *([command, name] for command in ("status", "why", "timeline") for name in JOBS),
]


def validate(command: str, output: Any) -> None:
    jsonschema.Draft202012Validator(build_schema(OUTPUTS[command])).validate(output)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_what_a_command_prints_fits_its_schema(arguments: list[str]) -> None:
    validate(arguments[0], json.loads(show([*arguments, "-o", "json"], None)))


@pytest.mark.parametrize("command", SHOWN)
def test_a_schema_is_valid_and_refuses_another_or_a_missing_field(command: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(build_schemas()[command]))
    name = [] if command in ("list", "top", "doctor") else ["digits"]
    arguments = [command, *name, "-o", "json"]
    output = json.loads(show(arguments, None))
    with pytest.raises(jsonschema.ValidationError, match="Additional properties"):
        validate(command, {**output, "other": 1})
    first = next(iter(output))
    with pytest.raises(jsonschema.ValidationError, match="'other' was unexpected"):
        validate(command, {**output, first: [{**output[first][0], "other": 1}]})
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        validate(command, {key: value for key, value in output.items() if key != first})


def test_each_command_with_json_has_a_schema() -> None:
    """A new command has its type in railhead.client.outputs."""
    with_json = {
        name
        for name, parser in find_commands(build_parser())
        if any(action.dest == "output" and "json" in (action.choices or ()) for action in parser._actions)
    }
    assert with_json == set(OUTPUTS)


def test_a_field_has_the_meaning_that_its_type_gives_it() -> None:
    row = build_schema(OUTPUTS["list"])["$defs"]["JobRow"]
    assert row["description"] == "One job."
    assert row["properties"]["waitsFor"]["description"].startswith("why it does not train")
    finding = build_schema(OUTPUTS["why"])["$defs"]["Finding"]
    assert finding["properties"]["remedy"] == {"type": "string", "description": "a sentence each."}
