"""Writes what the CRD and the chart know into docs/reference: `python -m tools.reference [--check]`.

In the tables of spec.md and status.md it writes the columns "Type" and "Can change" of each field; the other columns
are written by hand, and tests compare them with the CRD. It writes all of chart-values.md, cli.md and cli-schemas.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import yaml
from tools.chart_values import build_table
from tools.cli_reference import build_page
from tools.cli_schemas import FOLDER, build_schemas

from railhead.api.changes import ALWAYS, SUSPENDED
from railhead.api.schema import Schema

PROJECT = Path(__file__).resolve().parents[1]
CRD = PROJECT / "crds" / "railhead.dev_trainjobs.yaml"
VALUES = PROJECT / "charts" / "railhead" / "values.yaml"
REFERENCE = PROJECT / "docs" / "reference"
ROW = re.compile(r"^\| `((?:spec|status)\.[^`]+)` \| ([^|]*) \|(.*)$")
VALUES_INTRO = """# Chart values

All values of the chart `charts/railhead`, written from its `values.yaml` by `make generate`.
[Install on a cluster](../operate/install.md) explains the most important ones.

"""


def find_field(schema: Schema, path: str) -> Schema:
    """Returns the schema of a field; `[]` in its path stands for an item of a list, `<name>` for a key of a map."""
    for name in path.replace("[]", ".[]").split("."):
        if name == "[]":
            schema = schema["items"]
        elif name.startswith("<"):
            schema = schema["additionalProperties"]
        else:
            schema = schema["properties"][name]
    return schema


def describe_type(field: Schema) -> str:
    """Returns the type as the reference names it."""
    values = field.get("additionalProperties")
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "type" not in field:
        return "any form"
    if field["type"] == "object" and isinstance(values, dict):
        return "map of quantities" if values.get("x-kubernetes-int-or-string") else "map"
    return {"array": "list"}.get(field["type"], str(field["type"]))


def describe_change(path: str) -> str:
    """Returns when a field of the spec can change: at any time, while the job is suspended, in part, or never."""
    names = path.removeprefix("spec.").split(".")
    for allowed, when in ((ALWAYS, "any time"), (SUSPENDED, "suspended")):
        for depth, name in enumerate(names):
            parent = "".join(f".{each}" for each in names[:depth])
            if name.removesuffix("[]") in allowed.get(parent, ()):
                return when
    inside = "." + ".".join(names)
    return "in part" if any(parent == inside for allowed in (ALWAYS, SUSPENDED) for parent in allowed) else "never"


def write_columns(page: str, schema: Schema) -> str:
    """Returns the page with the columns that follow from the CRD and from the rules of changes."""
    lines = []
    for line in page.splitlines():
        row = ROW.match(line)
        if row:
            rest = row[3]
            if row[1].startswith("spec."):
                default, bounds, _, meaning = rest.strip("| ").split(" | ", 3)
                rest = f" {default} | {bounds} | {describe_change(row[1])} | {meaning} |"
            line = f"| `{row[1]}` | {describe_type(find_field(schema, row[1]))} |{rest}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def build_pages() -> dict[Path, str]:
    """Returns each page that this program writes, with its text."""
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = (REFERENCE / "spec.md", REFERENCE / "status.md")
    pages = {page: write_columns(page.read_text(), schema) for page in fields}
    pages[REFERENCE / "cli.md"] = build_page()
    pages |= {REFERENCE / FOLDER / f"{command}.json": text for command, text in build_schemas().items()}
    return {**pages, REFERENCE / "chart-values.md": VALUES_INTRO + build_table(VALUES.read_text())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for page, text in build_pages().items():
        if not options.check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text)
        elif not page.is_file() or page.read_text() != text:
            print(f"{page} is stale: run `make generate`", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
