"""Assigns Ray's agents their ports before they start, so that no node waits for them.

A raylet starts two Python agents, waits for the files to which they write their ports, and
dies after 15 s, which is hard-coded (ray-project/ray#65983). A busy machine, or one that
reads the image for the first time, needs longer for their imports. With ports chosen here,
the raylet has what it waits for when it starts, and the node joins at once.
"""

from __future__ import annotations

import functools
import inspect
import random
import socket
from dataclasses import dataclass
from typing import Any

FIRST, LAST = 20000, 32000  # above Ray's own range, below the kernel's for outgoing connections


@dataclass(frozen=True)
class AgentPorts:
    """One free port for each server that the agents run on this node."""

    http: int
    grpc: int
    metrics: int
    runtime_env: int

    def to_arguments(self) -> list[str]:
        """For `ray start`."""
        return [
            f"--dashboard-agent-listen-port={self.http}",
            f"--dashboard-agent-grpc-port={self.grpc}",
            f"--metrics-export-port={self.metrics}",
            f"--runtime-env-agent-port={self.runtime_env}",
        ]


def choose_ports(*, reserved: int = 0) -> AgentPorts:
    """Four different ports on which nothing listens; `reserved` is the head's."""
    sockets: list[socket.socket] = []
    try:
        for port in random.SystemRandom().sample(range(FIRST, LAST), 1000):
            taken = socket.socket()
            try:
                taken.bind(("0.0.0.0", port))
            except OSError:
                taken.close()
                continue
            sockets.append(taken)
            found = [s.getsockname()[1] for s in sockets if s.getsockname()[1] != reserved]
            if len(found) == 4:
                return AgentPorts(*found)
        raise RuntimeError(f"fewer than four free ports between {FIRST} and {LAST}")
    finally:
        for taken in sockets:
            taken.close()


def needs_ports(raylet: Any) -> bool:
    """Whether this Ray's nodes wait for files with ports; `raylet` is the module `ray._raylet`."""
    return hasattr(raylet, "persist_port") and hasattr(raylet, "DASHBOARD_AGENT_LISTEN_PORT_NAME")


def announce_http_port(services: Any, raylet: Any, port: int) -> None:
    """Makes `services.start_raylet` write the one port that a raylet reads only from a file.

    Source: `Node.start_raylet` in `ray/_private/node.py` and `DashboardAgent` in `ray/dashboard/agent.py`.
    """
    start = services.start_raylet

    @functools.wraps(start)
    def start_raylet(*arguments: Any, **options: Any) -> Any:
        bound = inspect.signature(start).bind(*arguments, **options).arguments
        raylet.persist_port(bound["session_dir"], bound["node_id"], raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME, port)
        return start(*arguments, **options)

    services.start_raylet = start_raylet
