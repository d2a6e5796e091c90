"""The JSON Schema of what each command prints with `-o json`, from the types of railhead.client.outputs."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from railhead.client.outputs import OUTPUTS

Schema = dict[str, Any]
ATTRIBUTE = re.compile(r"^    (\w[\w, ]*): (.*(?:\n     .*)*)", re.MULTILINE)
FOLDER = "cli-schemas"  # in docs/reference


def build_schemas() -> dict[str, str]:
    """Returns the text of each schema by its command."""
    return {command: json.dumps(build_schema(type_), indent=2) + "\n" for command, type_ in OUTPUTS.items()}


def build_schema(type_: type) -> Schema:
    """Returns the schema of a dataclass as `railhead.cli.output.Console.data` writes it: all fields, in camelCase."""
    schema = TypeAdapter(type_).json_schema()
    parts = [_describe(each) for each in (schema, *schema.get("$defs", {}).values())]
    definitions = dict(zip(schema.get("$defs", {}), parts[1:], strict=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **parts[0], "$defs": definitions}


def _describe(schema: Schema) -> Schema:
    """Returns the schema of one object, without those that it refers to."""
    summary, _, attributes = inspect.cleandoc(schema["description"]).partition("\n\nAttributes:\n")
    meanings = {
        name: " ".join(text.split()) for names, text in ATTRIBUTE.findall(attributes) for name in names.split(", ")
    }
    properties = {
        to_camel(name): {key: value for key, value in field.items() if key not in ("title", "default")}
        | ({"description": meanings[name]} if name in meanings else {})
        for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "description": summary,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
