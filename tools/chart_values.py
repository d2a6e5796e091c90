"""Builds the table of the chart's values, from values.yaml and its comments; `tools.reference` writes it.

A comment that begins with "# --" describes the value below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

KEY = re.compile(r"^( *)([A-Za-z]\w*):")
COMMENT = re.compile(r"^ *# -- (.+)$")


def read_descriptions(text: str) -> dict[str, str]:
    """Path of a value -> its comment.

    Raises:
        ValueError: a comment has no value below it.
    """
    found: dict[str, str] = {}
    path: list[str] = []
    waiting = ""
    for number, line in enumerate(text.splitlines(), start=1):
        comment, key = COMMENT.match(line), KEY.match(line)
        if comment:
            waiting = comment[1]
        elif key:
            path = [*path[: len(key[1]) // 2], key[2]]
            if waiting:
                found[".".join(path)] = waiting
            waiting = ""
        elif waiting:
            raise ValueError(f"line {number}: the comment {waiting!r} has no value below it")
    return found


def read_defaults(values: dict[str, Any], described: set[str], *, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its path: one with a description as a unit, others by their fields."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if path in described or not isinstance(value, dict):
            yield path, value
        else:
            yield from read_defaults(value, described, prefix=f"{path}.")


def build_table(text: str) -> str:
    """Raises ValueError when a value has no description."""
    descriptions = read_descriptions(text)
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    for path, default in read_defaults(yaml.safe_load(text), set(descriptions)):
        if path not in descriptions:
            raise ValueError(f"{path} has no comment")
        rows.append(f"| `{path}` | `{json.dumps(default)}` | {descriptions[path]} |")
    return "\n".join(rows) + "\n"
