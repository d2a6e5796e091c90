"""A template merged over another: lists with names by name; alternatives are replaced, as both would be rejected."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.resources.merge import APPENDED, MERGE_KEYS, merge

names = st.sampled_from(["a", "b", "c"])
leaves = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), names)
keys = st.sampled_from(
    sorted([*MERGE_KEYS, *APPENDED, "name", "mountPath", "containerPort", "value", "seccompProfile"])
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=20,
)
templates = st.dictionaries(keys, trees, max_size=4)


@given(templates, templates)
def test_merges_do_not_change_their_inputs(base: dict[str, Any], over: dict[str, Any]) -> None:
    kept = copy.deepcopy((base, over))
    merge(merge(base, over), over)
    assert (base, over) == kept


@given(templates)
def test_an_empty_template_changes_nothing(template: dict[str, Any]) -> None:
    assert merge(template, {}) == template
    assert merge({}, template) == template


@given(templates, templates)
def test_plain_values_of_the_upper_template_win(base: dict[str, Any], over: dict[str, Any]) -> None:
    merged = merge(base, over)
    assert merged.keys() == base.keys() | over.keys()
    for key, value in over.items():
        if value is None and isinstance(base.get(key), dict | list):
            assert merged[key] == base[key]
        elif not isinstance(value, dict | list):
            assert merged[key] == value


@pytest.mark.parametrize(
    ("key", "base", "over"),
    [
        ("env", {"name": "X", "value": "1"}, {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        ("volumes", {"name": "X", "emptyDir": {"medium": "Memory"}}, {"name": "X", "configMap": {"name": "c"}}),
        ("volumeMounts", {"mountPath": "/x", "name": "a", "readOnly": True}, {"mountPath": "/x", "name": "b"}),
    ],
)
def test_replaces_items_that_hold_alternatives(key: str, base: dict[str, Any], over: dict[str, Any]) -> None:
    others = [{"name": "before", "mountPath": "/before"}, {"name": "after", "mountPath": "/after"}]
    merged = merge({key: [others[0], base, others[1]]}, {key: [over]})
    assert merged == {key: [others[0], over, others[1]]}


def test_replaces_a_probe() -> None:
    base = {"livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 3}}
    over = {"livenessProbe": {"httpGet": {"port": 80}}}
    assert merge(base, over) == over


def test_merges_containers_by_name_in_the_order_of_the_lower_template() -> None:
    base = {"containers": [{"name": "ray", "image": "i", "resources": {"limits": {"cpu": "1"}}}, {"name": "other"}]}
    over = {"containers": [{"name": "new"}, {"name": "ray", "resources": {"limits": {"memory": "1Gi"}}}]}
    assert merge(base, over)["containers"] == [
        {"name": "ray", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"name": "other"},
        {"name": "new"},
    ]


@pytest.mark.parametrize("key", sorted(APPENDED))
def test_appends_items_without_a_name(key: str) -> None:
    assert merge({key: [{"key": "a"}]}, {key: [{"key": "a"}, {"key": "b"}]})[key] == [
        {"key": "a"},
        {"key": "a"},
        {"key": "b"},
    ]


def test_replaces_any_other_list() -> None:
    base = {"capabilities": {"drop": ["ALL"]}}
    assert merge(base, {"capabilities": {"drop": ["NET_RAW"]}}) == {"capabilities": {"drop": ["NET_RAW"]}}
