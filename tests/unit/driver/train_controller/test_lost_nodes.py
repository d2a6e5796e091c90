"""Which nodes are lost, and which of them are marked dead in Ray, after a second probe."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.driver.train_controller import lost_nodes
from railhead.driver.train_controller.lost_nodes import (
    LostNode,
    confirm_lost,
    find_lost_nodes,
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
    }


@pytest.mark.usefixtures("nodes")
def test_a_node_is_lost_if_it_refuses_connections_or_is_dead_for_ray() -> None:
    unknown = LostNode("b0", "127.0.0.1", is_known=False, host="pod-b0")
    dead = LostNode("c0", "127.0.0.1", is_known=True, host="pod-c0")
    assert find_lost_nodes({"a0", "b0", "c0"}) == (unknown, dead)
    assert find_lost_nodes({"d0"}) == (LostNode("d0", "d0", is_known=True),), "forgotten by Ray"
    assert wait_for_lost_nodes(["a0", "b0"]) == (unknown,)
    assert wait_for_lost_nodes([]) == ()


@pytest.mark.usefixtures("nodes")
def test_marks_only_nodes_dead_that_ray_considers_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[LostNode] = []
    monkeypatch.setattr(lost_nodes, "_unregister", marked.append)
    mark_dead_in_ray(find_lost_nodes({"a0", "b0", "c0"}))
    assert [node.node_id for node in marked] == ["b0"]


@pytest.mark.usefixtures("nodes")
def test_a_second_probe_confirms_nodes_that_ray_considers_alive() -> None:
    lost = find_lost_nodes({"b0", "c0"})
    busy = LostNode("a0", "127.0.0.1", is_known=False, host="pod-a0")  # it accepts a connection by now
    assert {node.host for node in confirm_lost([busy, *lost])} == {"pod-b0", "pod-c0"}
    assert confirm_lost([]) == ()


@pytest.mark.usefixtures("nodes")
def test_only_logs_a_node_that_cannot_be_marked_dead(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(node: LostNode) -> None:
        raise ImportError("No module named 'grpc'")

    monkeypatch.setattr(lost_nodes, "_unregister", fail)
    mark_dead_in_ray(find_lost_nodes({"b0"}))
    output = capfd.readouterr().out
    assert "that node 127.0.0.1 is lost (ImportError: No module named 'grpc'; add grpcio to spec.image)" in output
