"""Which nodes are lost, and which of them are marked dead in Ray, after a second probe."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from railhead.driver.container.hosts import HEAD_RESOURCE
from railhead.driver.ray import nodes as lost_nodes
from railhead.driver.ray.nodes import (
    LostNode,
    confirm_lost,
    list_lost_nodes,
    mark_dead_in_ray,
    wait_for_lost_nodes,
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def nodes(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Ray's nodes: one that listens, one that does not although alive for Ray, one that is dead for Ray."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found = [
        make_node("a0", listener.getsockname()[1], is_alive=True),
        make_node("b0", port, is_alive=True),
        make_node("c0", port, is_alive=False),
    ]
    monkeypatch.setattr("ray.nodes", lambda: found)
    return found


def make_node(node_id: str, port: int, *, is_alive: bool) -> dict[str, Any]:
    return {
        "NodeID": node_id,
        "NodeManagerAddress": "127.0.0.1",
        "NodeManagerHostname": f"pod-{node_id}",
        "NodeManagerPort": port,
        "Alive": is_alive,
        "Resources": {HEAD_RESOURCE: 1.0} if node_id == "head" else {"CPU": 8.0},
    }


@pytest.mark.usefixtures("nodes")
def test_a_node_is_lost_if_it_refuses_connections_or_is_dead_for_ray() -> None:
    unknown = LostNode("b0", "127.0.0.1", is_known=False, host="pod-b0")
    dead = LostNode("c0", "127.0.0.1", is_known=True, host="pod-c0")
    assert list_lost_nodes({"a0", "b0", "c0"}) == (unknown, dead)
    assert list_lost_nodes({"d0"}) == (LostNode("d0", "d0", is_known=True),), "forgotten by Ray"
    assert wait_for_lost_nodes(["a0", "b0"]) == (unknown,)
    assert wait_for_lost_nodes([]) == ()


@pytest.mark.usefixtures("nodes")
def test_marks_only_nodes_dead_that_ray_considers_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[LostNode] = []
    monkeypatch.setattr(lost_nodes, "_unregister", marked.append)
    mark_dead_in_ray(list_lost_nodes({"a0", "b0", "c0"}))
    assert [node.node_id for node in marked] == ["b0"]


@pytest.mark.usefixtures("nodes")
def test_a_second_probe_confirms_nodes_that_ray_considers_alive() -> None:
    lost = list_lost_nodes({"b0", "c0"})
    busy = LostNode("a0", "127.0.0.1", is_known=False, host="pod-a0")  # it accepts a connection by now
    assert {node.host for node in confirm_lost([busy, *lost])} == {"pod-b0", "pod-c0"}
    assert confirm_lost([]) == ()


@dataclass
class Clock:
    """In place of `time` in the module under test, with long pauses; `on_sleep` receives the seconds so far."""

    now: float = 0.0
    on_sleep: Callable[[float], None] = lambda now: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 5)
        self.on_sleep(self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(lost_nodes, "time", found)
    return found


@pytest.fixture
def refused(nodes: list[dict[str, Any]], listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Ids of nodes that refuse new connections; 64 nodes and the head, all alive for Ray."""
    ports = {node_id: 1000 + number for number, node_id in enumerate(["head", *(f"n{i}" for i in range(64))])}
    nodes[:] = [make_node(node_id, port, is_alive=True) for node_id, port in ports.items()]
    found: set[str] = set()
    monkeypatch.setattr(
        lost_nodes, "is_listening", lambda address, port, timeout: not any(ports[node] == port for node in found)
    )
    return found


@pytest.mark.parametrize(
    ("silent", "lost"),
    [
        ([f"n{i}" for i in range(6)], 6),
        ([f"n{i}" for i in range(7)], 0),
        ([f"n{i}" for i in range(64)], 0),
        (["n1", "head"], 0),
    ],
)
def test_a_head_that_opens_no_connections_loses_no_node(
    refused: set[str], clock: Clock, silent: list[str], lost: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its connection tracking is full, or it has no file descriptors left: Ray's connections stay open."""
    wanted = {f"n{i}" for i in range(64)}
    refused.update(silent)
    assert len(wait_for_lost_nodes(wanted)) == len(list_lost_nodes(wanted)) == lost
    assert clock.now > lost_nodes.RAY_PATIENCE_SECONDS or lost, "Ray's own health check has had its time"
    assert capfd.readouterr().out.count("waiting for Ray's own health check") == (not lost)


def test_a_head_that_opens_no_connections_any_more_confirms_no_loss(refused: set[str]) -> None:
    """At the second probe the head reaches none."""
    refused.add("n1")
    lost = list_lost_nodes({"n1", "n2"})
    refused.add("head")
    assert len(lost) == 1 and confirm_lost(lost) == ()


def test_many_nodes_are_lost_once_ray_says_so(nodes: list[dict[str, Any]], refused: set[str], clock: Clock) -> None:
    def notice(now: float) -> None:
        for node in nodes[1:]:
            node["Alive"] = now < 15

    clock.on_sleep = notice
    refused.update(f"n{i}" for i in range(64))
    lost = wait_for_lost_nodes(refused)
    assert len(lost) == 64 and all(node.is_known for node in lost) and clock.now == 15


def test_nodes_that_answer_again_are_not_lost(refused: set[str], clock: Clock) -> None:
    clock.on_sleep = lambda now: refused.clear() if now > 10 else None
    refused.update(f"n{i}" for i in range(64))
    assert wait_for_lost_nodes({f"n{i}" for i in range(64)}) == () and clock.now == 15


@pytest.mark.usefixtures("nodes")
def test_only_logs_a_node_that_cannot_be_marked_dead(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(node: LostNode) -> None:
        raise ImportError("No module named 'grpc'")

    monkeypatch.setattr(lost_nodes, "_unregister", fail)
    mark_dead_in_ray(list_lost_nodes({"b0"}))
    output = capfd.readouterr().out
    assert "that node 127.0.0.1 is lost (ImportError: No module named 'grpc'; add grpcio to spec.image)" in output
