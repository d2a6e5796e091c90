"""The CRD accepts what every released one accepted: stored jobs and files in Git stay valid.

`make keep-crd` puts a release's CRD into tests/released, which does not exist before the first release.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.release import keep_crd

from railhead.api import crd
from railhead.api.schema import list_narrowed

PROJECT = Path(__file__).resolve().parents[3]
RELEASES = PROJECT / "tests" / "released"
RELEASED = sorted(RELEASES.glob(f"*/{crd.FILE_NAME}"))
RULE = """\
A CRD may grow but not narrow: no field removed, no type, default or list type changed, no bound tightened, no enum
value removed, no field newly required and no new rule on existing fields. `make keep-crd` adds a release's CRD."""
Schema = dict[str, Any]


@pytest.fixture
def current(tmp_path: Path) -> Path:
    """The current CRD, kept as that of a release."""
    keep_crd(PROJECT / "crds" / crd.FILE_NAME, tmp_path / "0.0.1")
    return tmp_path / "0.0.1" / crd.FILE_NAME


def test_the_crd_does_not_narrow_a_released_one(current: Path) -> None:
    for path in (*RELEASED, current):
        assert not find_changes(yaml.safe_load(path.read_text())), RULE


def test_a_crd_that_is_narrower_than_a_kept_one_is_found(current: Path) -> None:
    kept = yaml.safe_load(current.read_text())
    [version] = kept["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["retired"] = {"type": "string"}
    assert find_changes(kept) == ["spec.retired: missing"]


def test_each_dated_release_of_the_changelog_has_its_crd_kept() -> None:
    """A release without it would be narrowed unnoticed."""
    versions = re.findall(r"^## \[(\d[^]]*)\] - \d", (PROJECT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert sorted(versions) == sorted(path.parent.name for path in RELEASED), "run `make keep-crd`"


def find_changes(kept: Schema) -> list[str]:
    """Returns what the current CRD rejects although the kept one accepted it."""
    old, new = kept["spec"], crd.build_crd()["spec"]
    assert {key: old[key] for key in ("group", "scope", "names")} == {k: new[k] for k in ("group", "scope", "names")}
    served = {version["name"]: version for version in new["versions"] if version["served"]}
    found: list[str] = []
    for version in old["versions"]:
        now = served[version["name"]]
        assert now["subresources"] == version["subresources"]
        assert all(field in now["selectableFields"] for field in version["selectableFields"])
        one, other = (v["schema"]["openAPIV3Schema"] for v in (version, now))
        for part in ("spec", "status"):
            found += list_narrowed(one["properties"][part], other["properties"][part], part)
        known = {check["rule"] for check in one["x-kubernetes-validations"]}
        found += [str(check) for check in other["x-kubernetes-validations"] if check["rule"] not in known]
    return found


def make_schema() -> Schema:
    text = {"type": "string", "maxLength": 10, "enum": ["a", "b"], "default": "a"}
    number = {"type": "integer", "minimum": 1, "maximum": 5}
    names = {"type": "array", "maxItems": 4, "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    sizes = {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer", "maximum": 9}}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    fields = {"text": text, "number": number, "names": names, "sizes": sizes, "free": free}
    rules = [{"rule": "self.number > 1", "message": "..."}]
    return {"type": "object", "required": ["number"], "properties": fields, "x-kubernetes-validations": rules}


def at(schema: Schema, *path: str) -> Schema:
    for part in path:
        schema = schema[part]
    return schema


NARROWED: dict[str, Callable[[Schema], Any]] = {
    "spec.text: missing": lambda s: s["properties"].pop("text"),
    "spec.text: is required": lambda s: (s["required"].append("text"), at(s, "properties", "text").pop("default")),
    "spec.text: maxLength is 9 instead of 10": lambda s: at(s, "properties", "text").update(maxLength=9),
    "spec.text: 'b' is not allowed": lambda s: at(s, "properties", "text").update(enum=["a", "c"]),
    "spec.text: default is 'b' instead of 'a'": lambda s: at(s, "properties", "text").update(default="b"),
    "spec.text: additional pattern": lambda s: at(s, "properties", "text").update(pattern="^a$"),
    "spec.number: type is 'string' instead of 'integer'": lambda s: at(s, "properties", "number").update(type="string"),
    "spec.number: minimum is 2 instead of 1": lambda s: at(s, "properties", "number").update(minimum=2),
    "spec.names[]: additional enum": lambda s: at(s, "properties", "names", "items").update(enum=["x"]),
    "spec.names: additional minItems 1": lambda s: at(s, "properties", "names").update(minItems=1),
    "spec.sizes.*: maximum is 8 instead of 9": lambda s: at(s, "properties", "sizes", "additionalProperties").update(
        maximum=8
    ),
    "spec.free: unknown fields are not allowed": lambda s: at(s, "properties", "free").clear(),
    "spec: additional rule 'self.number > 2'": lambda s: s["x-kubernetes-validations"].append(
        {"rule": "self.number > 2"}
    ),
}


@pytest.mark.parametrize("message", NARROWED)
def test_a_narrowing_change_is_reported(message: str) -> None:
    old, new = make_schema(), make_schema()
    NARROWED[message](new)
    assert message in list(list_narrowed(old, new, "spec"))


WIDENED: dict[str, Callable[[Schema], Any]] = {
    "nothing": lambda s: None,
    "a field": lambda s: s["properties"].update(more={"type": "integer", "maximum": 3}),
    "a required field with a default": lambda s: (
        s["required"].append("more"),
        s["properties"].update(more={"type": "integer", "default": 3}),
    ),
    "a rule on a new field": lambda s: (
        s["properties"].update(more={"type": "integer"}),
        s["x-kubernetes-validations"].append({"rule": "!has(self.more) || self.more < self.number"}),
    ),
    "an enum value": lambda s: at(s, "properties", "text")["enum"].append("c"),
    "a wider bound": lambda s: at(s, "properties", "number").update(minimum=0, maximum=9),
    "no bound": lambda s: at(s, "properties", "names").pop("maxItems"),
    "a bound without effect": lambda s: at(s, "properties", "names").update(minItems=0),
    "no rule": lambda s: s.pop("x-kubernetes-validations"),
    "fewer required fields": lambda s: s.pop("required"),
}


@pytest.mark.parametrize("change", WIDENED)
def test_a_widening_change_is_accepted(change: str) -> None:
    old = make_schema()
    new = copy.deepcopy(old)
    WIDENED[change](new)
    assert list(list_narrowed(old, new, "spec")) == []
