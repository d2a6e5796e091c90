"""A container's variables and command: expansion, references, and mount paths that are folders of this machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.local.node.container_env import (
    MissingReference,
    build_command,
    build_environment,
    expand,
    field_value,
    rewrite,
)

DATA = {("ConfigMap", "settings"): {"a": "1", "b": "2"}, ("Secret", "keys"): {"a": "hidden"}}


def build(container: dict[str, Any], mounts: dict[str, str] | None = None) -> dict[str, str]:
    async def look_up(kind: str, name: str) -> dict[str, str] | None:
        return DATA.get((kind, name))

    return asyncio.run(
        build_environment(container, mounts=mounts or {}, fields=lambda path: f"<{path}>", lookup=look_up)
    )


def by_key(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key, **more}}}]}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)/$(A)", "1/1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(UNKNOWN) $A ${A} $", "$(UNKNOWN) $A ${A} $"),
        ("$(B)", "$(A)"),
    ],
)
def test_references_are_expanded_once_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "$(A)"}) == expanded


@given(st.text(), st.dictionaries(st.sampled_from(["A", "B"]), st.text()))
def test_doubled_dollars_protect_any_text(text: str, values: dict[str, str]) -> None:
    assert expand(text.replace("$", "$$"), values) == text


def test_a_variable_can_refer_to_earlier_ones() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}, {"name": "D"}]
    assert build({"env": env}) == {"A": "1", "B": "1$(C)", "C": "3", "D": ""}


def test_values_come_from_fields_config_maps_and_secrets() -> None:
    assert build({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}) == {
        "X": "<status.podIP>"
    }
    assert build(by_key("configMapKeyRef", "settings", "b")) == {"X": "2"}
    assert build(by_key("secretKeyRef", "keys", "a")) == {"X": "hidden"}


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (by_key("configMapKeyRef", "none", "a"), "ConfigMap none or its key a does not exist"),
        (by_key("secretKeyRef", "keys", "z"), "Secret keys or its key z does not exist"),
        ({"envFrom": [{"secretRef": {"name": "none"}}]}, "Secret none does not exist"),
        (by_key("resourceFieldRef", "", ""), "env X: resourceFieldRef is not supported on this node"),
    ],
)
def test_names_a_missing_reference(container: dict[str, Any], message: str) -> None:
    with pytest.raises(MissingReference, match=f"^{message}$"):
        build(container)


def test_each_object_is_looked_up_once() -> None:
    asked = []

    async def look_up(kind: str, name: str) -> dict[str, str]:
        asked.append((kind, name))
        return {"a": "1", "b": "2"}

    env = [{"name": f"of {key}", "valueFrom": {"secretKeyRef": {"name": "one", "key": key}}} for key in ("a", "b")]
    container = {"envFrom": [{"secretRef": {"name": "one"}}, {"configMapRef": {"name": "one"}}], "env": env}
    built = asyncio.run(build_environment(container, mounts={}, fields=str, lookup=look_up))
    assert (built["of a"], built["of b"]) == ("1", "2")
    assert asked == [("Secret", "one"), ("ConfigMap", "one")]


def test_an_optional_reference_may_be_missing() -> None:
    assert build(by_key("secretKeyRef", "keys", "z", optional=True)) == {}
    assert build({"envFrom": [{"configMapRef": {"name": "none", "optional": True}}]}) == {}


def test_env_from_comes_first_with_its_prefix_and_can_be_referred_to() -> None:
    sources = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}, "prefix": "S_"}]
    env = [{"name": "b", "value": "$(S_a)!"}]
    assert build({"envFrom": sources, "env": env}) == {"a": "1", "b": "hidden!", "S_a": "hidden"}


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/data", "/real"),
        ("/data/x", "/real/x"),
        ("--dir=/data", "--dir=/real"),
        ("/data:/data/lib", "/real:/real/lib"),
        ("file:///data", "file:///data"),
        ("/database", "/database"),
        ("/my/data", "/my/data"),
        ("/data/inner/x", "/in/x"),
        ("cat '/data/x' \"/data\"; ls /data", "cat '/real/x' \"/real\"; ls /real"),
    ],
)
def test_rewrites_complete_segments_of_mount_paths_longest_first(text: str, rewritten: str) -> None:
    assert rewrite(text, {"/data/": "/real", "/data/inner": "/in"}) == rewritten


def test_rewrites_a_path_once_even_if_its_folder_is_below_a_mount_path() -> None:
    """/tmp is often mounted, and the real folders are in /tmp."""
    mounts = {"/tmp": "/tmp/rh-1/v0"}
    container = {
        "command": ["sh", "-c", "ls /tmp $(WHERE)"],
        "args": ["$(WHERE)/x"],
        "env": [{"name": "WHERE", "value": "/tmp/a"}],
    }
    values = build(container, mounts)
    assert values == {"WHERE": "/tmp/rh-1/v0/a"}
    assert build_command(container, mounts=mounts, values=values) == [
        "sh",
        "-c",
        "ls /tmp/rh-1/v0 /tmp/rh-1/v0/a",
        "/tmp/rh-1/v0/a/x",
    ]


def test_a_container_needs_a_command() -> None:
    with pytest.raises(MissingReference, match="the container has no command; set one"):
        build_command({"args": ["x"]}, mounts={}, values={})


POD = {
    "metadata": {"name": "n", "namespace": "ns", "uid": "u", "labels": {"app.kubernetes.io/name": "x"}},
    "spec": {"nodeName": "local"},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "n"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app.kubernetes.io/name']", "x"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "local"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.1.1.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert field_value(POD, path, address="127.1.1.1") == value


def test_names_an_unknown_field() -> None:
    with pytest.raises(MissingReference, match=r"field spec\.priority is not supported on this node"):
        field_value(POD, "spec.priority", address="")
