"""The driver learns which variables come from Secrets, by their names or not."""

from __future__ import annotations

from typing import Any

from railhead.json_object import Object
from railhead.local.node.container_env import build_environment
from railhead.resources.secret_env import mark_secrets

PASSWORD: Object = {"name": "GREETING", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
ORIGIN = {"secretRef": {"name": "db"}, "prefix": "DB_"}


async def test_each_variable_of_a_secret_is_there_twice() -> None:
    container = {
        "env": [PASSWORD, {"name": "PLAIN", "value": "x"}],
        "envFrom": [ORIGIN, {"secretRef": {"name": "other", "optional": True}}, {"configMapRef": {"name": "settings"}}],
    }
    objects = {("Secret", "db"): {"password": "hunter2"}, ("ConfigMap", "settings"): {"LEVEL": "debug"}}

    async def look_up(kind: str, name: str) -> dict[str, str] | None:
        return objects.get((kind, name))

    found = await build_environment(mark_secrets(container), mounts={}, fields=str, lookup=look_up)
    assert found == {
        "GREETING": "hunter2",
        "RAILHEAD_FROM_SECRET_GREETING": "hunter2",
        "DB_password": "hunter2",
        "RAILHEAD_FROM_SECRET_DB_password": "hunter2",
        "PLAIN": "x",
        "LEVEL": "debug",
    }


def test_a_container_without_secrets_stays_as_it_is() -> None:
    container = {"name": "ray", "env": [{"name": "A", "value": "1"}], "envFrom": [{"configMapRef": {"name": "c"}}]}
    assert mark_secrets(container) == container


def test_odd_containers_are_left_to_the_api_server() -> None:
    odd: list[Any] = [None, "x", 3, {"valueFrom": "x"}, {"secretRef": None}, {"valueFrom": {"secretKeyRef": None}}]
    marked = mark_secrets({"env": odd, "envFrom": odd})
    assert marked["env"][: len(odd)] == odd
    assert mark_secrets({"env": "x", "envFrom": {}}) == {"env": "x", "envFrom": {}}
