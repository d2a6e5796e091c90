"""The ports of a node's agents: free, different, and known to the raylet before the agents are."""

from __future__ import annotations

import inspect
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.driver.node import agent_ports
from railhead.driver.node.agent_ports import announce_http_port, choose_ports, needs_ports


def test_ports_are_different_and_can_be_listened_on() -> None:
    ports = choose_ports()
    numbers = set(vars(ports).values())
    assert len(numbers) == 4
    for number in numbers:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", number))


def test_skips_reserved_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_ports, "FIRST", 20000)
    monkeypatch.setattr(agent_ports, "LAST", 21000)
    chosen = [choose_ports(reserved=port) for port in range(20000, 20200)]
    assert all(port not in vars(ports).values() for port, ports in zip(range(20000, 20200), chosen, strict=True))


def test_raylet_finds_the_port_in_its_file_when_it_starts() -> None:
    seen: list[Any] = []

    def start_raylet(address: str, node_id: str, session_dir: str) -> str:
        seen.append("started")
        return "process"

    services = SimpleNamespace(start_raylet=start_raylet)
    raylet = SimpleNamespace(persist_port=lambda *args: seen.append(args), DASHBOARD_AGENT_LISTEN_PORT_NAME="http")
    announce_http_port(services, raylet, 20123)
    assert services.start_raylet("10.0.0.1:6379", "node", session_dir="/tmp/s") == "process"
    assert seen == [("/tmp/s", "node", "http", 20123), "started"]


def test_does_nothing_for_a_ray_without_port_files() -> None:
    assert not needs_ports(SimpleNamespace())


def test_contract_rays_node_starts_its_raylet_where_we_replace_it() -> None:
    from ray._private import node, services

    from ray import _raylet

    if not needs_ports(_raylet):
        return  # an older Ray, whose raylets do not wait
    assert {"node_id", "session_dir"} <= set(inspect.signature(services.start_raylet).parameters)
    assert "ray._private.services.start_raylet(" in inspect.getsource(node.Node.start_raylet)


def test_contract_ray_start_accepts_the_ports() -> None:
    from ray.scripts.scripts import start

    known = {name for option in start.params for name in option.opts}
    assert {argument.partition("=")[0] for argument in choose_ports().to_arguments()} <= known
