"""The generated CRD by itself: complete, bounded, up to date, and accepted by the API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.api import changes, crd
from railhead.api.scaling import SAME_GPUS

FILE = Path(__file__).resolve().parents[3] / "crds" / crd.FILE_NAME
ROOT: dict[str, Any] = crd.build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
NOT_STRUCTURAL = {
    "$ref",
    "$defs",
    "const",
    "title",
    "examples",
    "allOf",
    "propertyNames",
    "patternProperties",
}


DESIRED = "desiredWorkers"
READ = re.compile(r"\b(?:oldSelf|self)((?:\.\??\w+\b(?!\())+)")


def list_rules(node: dict[str, Any]) -> list[str]:
    return [check["rule"] for check in node.get("x-kubernetes-validations", [])]


def nodes(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and every schema in it, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from nodes(node["additionalProperties"], f"{path}.*")


NODES = [(path, node) for part in ("spec", "status") for path, node in nodes(ROOT["properties"][part], part)]


def test_the_file_is_up_to_date_and_small_enough_to_apply() -> None:
    assert crd.main([str(FILE), "--check"]) == 0
    assert FILE.stat().st_size < crd.LIMIT_BYTES
    annotation = json.dumps(yaml.safe_load(FILE.read_text()), separators=(",", ":"))  # as in a client-side apply
    assert len(annotation) < crd.LIMIT_BYTES * 5 / 8


def test_a_stale_file_is_detected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = tmp_path / "crd.yaml"
    stale.write_text(FILE.read_text().replace("maximum: 4096", "maximum: 4095"))
    assert crd.main([str(stale), "--check"]) == 1
    assert "make generate" in capsys.readouterr().err
    assert crd.main([str(stale)]) == 0
    assert yaml.safe_load(stale.read_text()) == crd.build_crd()


def test_every_field_has_a_description() -> None:
    undescribed = [path for path, node in NODES if not path.endswith(("[]", "*")) and not node.get("description")]
    assert undescribed == []


def test_every_string_list_and_map_has_a_bound() -> None:
    unbounded = []
    for path, node in NODES:
        is_free = node.get("x-kubernetes-preserve-unknown-fields") and "properties" in node
        if node.get("type") == "string" and "enum" not in node and "maxLength" not in node:
            unbounded.append(path)
        if node.get("type") == "array" and "maxItems" not in node:
            unbounded.append(path)
        if node.get("type") == "object" and "properties" not in node and not is_free and "maxProperties" not in node:
            unbounded.append(path)
        if node.get("x-kubernetes-int-or-string") and "maxLength" not in node:
            unbounded.append(path)
    assert unbounded == []


def test_every_list_has_a_type() -> None:
    """Otherwise server-side apply by two managers depends on a default."""
    lists = {path: node.get("x-kubernetes-list-type") for path, node in NODES if node.get("type") == "array"}
    assert {"spec.trainer.entrypoint", "spec.envFrom", "spec.run.callbacks", "status.conditions"} <= lists.keys()
    assert {path for path, type_ in lists.items() if type_ not in ("atomic", "map", "set")} == set()


def test_every_time_in_the_status_has_the_date_time_format() -> None:
    times = {path: node for path, node in NODES if path.startswith("status") and re.search(r"(\.since|[tT]ime)$", path)}
    assert len(times) == 20
    assert {path for path, node in times.items() if node.get("format") != "date-time"} == set()


def test_every_number_in_the_spec_has_both_bounds() -> None:
    numbers = [(p, n) for p, n in NODES if p.startswith("spec") and n.get("type") == "integer"]
    assert [path for path, node in numbers if not {"minimum", "maximum"} <= set(node)] == []
    assert not [path for path, node in NODES if node.get("type") == "number"], "floats do not survive a round trip"


def test_the_crd_has_only_keywords_of_structural_schemas() -> None:
    assert [path for path, node in NODES if NOT_STRUCTURAL & set(node)] == []


def test_only_the_initial_status_has_a_default() -> None:
    """A default deeper in it would look like an observed fact."""
    assert [path for path, node in NODES if path.startswith("status") and "default" in node] == ["status"]


def parts(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects of which some fields may change."""
    return {path: spec["properties"][path[1:]] if path else spec for path in ("", *changes.ALWAYS, *changes.SUSPENDED)}


def test_each_immutable_field_of_the_spec_has_rules() -> None:
    """One about its value, and one about its presence unless it is always there."""
    found = parts(ROOT["properties"]["spec"])
    for path, parent in found.items():
        fields = parent["properties"]
        changing = {*changes.ALWAYS.get(path, ()), *changes.SUSPENDED.get(path, ())}
        changing |= {name for name in fields if f"{path}.{name}" in found}
        kept = {name for name, field in fields.items() if "self == oldSelf" in list_rules(field)}
        assert kept == set(fields) - changing, "all fields but those that may change"
        always = {name for name, field in fields.items() if "default" in field or name in parent.get("required", [])}
        guarded = {n for n in fields if f"has(self.{n}) == has(oldSelf.{n})" in list_rules(parent)}
        assert guarded == kept - always


def test_one_rule_compares_all_that_may_change_in_phase_suspended_only() -> None:
    [rule] = [rule for rule in list_rules(ROOT) if changes._IS_STATUS_WRITE in rule]
    default = r"(?: : '\w*'\))? == (?:\(has\(oldSelf\.spec\.\w+\)(?: && has\(\S+\))? \? )?"  # its object may be absent
    compared = re.findall(rf"self\.spec(\S+){default}oldSelf\.spec(\S+)", rule)
    assert sorted(one for one, other in compared if one == other.rstrip(")")) == sorted(
        f"{path}.{name}" for path, fields in changes.SUSPENDED.items() for name in fields
    )
    assert rule.startswith(
        f"{changes._IS_STATUS_WRITE} || oldSelf.?status.?phase.orValue('') in ['Suspended', 'Queued'] || ("
    )
    assert not {name for fields in changes.SUSPENDED.values() for name in fields} & changes.ALWAYS[""]


def count_looks(schema: dict[str, Any], rule: str) -> int:
    """At the fields of all objects that a rule reads a field of."""
    looks = 0
    for steps in READ.findall(rule):
        node = schema
        for step in re.findall(r"\w+", steps):
            looks += len(node.get("properties", ()))
            node = node.get("properties", {}).get(step, {})
    return looks


def test_rules_cost_the_api_server_little_at_a_status_write() -> None:
    """It evaluates all rules of what the job has, and each field that a rule reads costs it a look at all fields of
    the object: 6,781 looks once cost it a third of the write."""
    looks = 0
    for path in ("spec", *(f"spec.{name}" for name in ("trainer", "scaling", "run", "head", "worker"))):
        node = dict(NODES)[path]
        evaluated = [rule for rule in list_rules(node) if not rule.startswith("oldSelf.hasValue() || ")]
        looks += sum(count_looks(node, rule) for rule in evaluated)
    [_, wait, check] = list_rules(ROOT)
    for rule, unless in ((wait, changes._IS_STATUS_WRITE), (check, f"!({changes._IS_SUSPENDED})")):
        assert rule.startswith(f"{unless} || ")
        looks += count_looks(ROOT, unless)
    assert looks < 1275


def test_what_may_change_is_checked_at_each_change() -> None:
    rules = dict(NODES)["spec.scaling"]["x-kubernetes-validations"]
    assert [DESIRED in rule["rule"] for rule in rules if not rule.get("optionalOldSelf")].count(True) == 2
    [policy] = list_rules(dict(NODES)["spec.failurePolicy.rules[]"])
    assert "oldSelf" not in policy


def test_no_rule_about_what_may_change_in_phase_suspended_looks_at_creation_only() -> None:
    """Rules that read several fields have a copy in the root's."""
    [_, _, check] = list_rules(ROOT)
    assert SAME_GPUS["message"] in ROOT["x-kubernetes-validations"][2]["messageExpression"]
    fields = [f"spec{path}.{name}" for path, names in changes.SUSPENDED.items() for name in names]
    within = [node for path, node in NODES if any(re.match(rf"{re.escape(f)}(\W|$)", path) for f in fields)]
    assert len(within) > 100
    assert [rule for node in within for rule in list_rules(node) if rule.startswith("oldSelf.hasValue() || ")] == []
    for path, parent in parts(ROOT["properties"]["spec"]).items():
        for rule in list_rules(parent):
            if any(re.search(rf"\.{name}\b", rule) for name in changes.SUSPENDED.get(path, ())):
                judged = rule.removeprefix("oldSelf.hasValue() || ")
                assert re.sub(r"\bself\.", f"self.spec{path}.", judged) in check


def test_each_rule_has_a_short_message() -> None:
    checks = [rule for _, node in NODES for rule in node.get("x-kubernetes-validations", [])]
    assert len(checks) > 40
    assert all(10 < len(rule["message"]) < 200 and "\n" not in rule["message"] for rule in checks)
