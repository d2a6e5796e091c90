"""Runs Ray's own command in this process, with hooks that only work inside the process.

A raylet starts two Python agents, waits for the files to which they write their ports, and
dies after 15 s, which is hard-coded (ray-project/ray#65983). A busy machine, or one that
reads the image for the first time, needs longer for their imports. With ports chosen here,
the raylet has what it waits for when it starts, and the node joins at once.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
import socket
import sys
from typing import Any, Sequence

FIRST, LAST = 20000, 32000  # above Ray's own range, below the kernel's for outgoing connections
# Pods may share a machine's ports: in a local cluster, and with hostNetwork.
OPTIONS = (
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--metrics-export-port",
    "--runtime-env-agent-port",
)


def run_ray(arguments: list[str]) -> None:
    """Runs `ray start ...`; returns or exits when Ray does."""
    from ray._private import node, services
    from ray.scripts.scripts import main, start

    from ray import _raylet

    if hasattr(_raylet, "persist_port"):  # the raylet of an older Ray does not wait
        missing = find_missing(start, services, _raylet)
        if missing:  # a newer Ray: it starts as it does by itself
            print(f"railhead: ray start has no {', '.join(missing)}: on a busy machine a node may not join", flush=True)
        else:
            arguments = [*arguments, *choose_ports(arguments)]
            announce_http_port(services, _raylet)
    # A process and an open port that no TrainJob uses; `ray start` has no option to leave them out.
    node.Node.start_ray_client_server = lambda self: None
    sys.argv = ["ray", *arguments]
    main()


def find_missing(start: Any, services: Any, raylet: Any) -> list[str]:
    """What this module needs of `ray start`, `services.start_raylet` and the raylet's module and they do not have."""
    options = {option for parameter in start.params for option in parameter.opts}
    names = inspect.signature(services.start_raylet).parameters
    missing = [each for each in OPTIONS if each not in options]
    missing += [each for each in ("session_dir", "node_id", "dashboard_agent_listen_port") if each not in names]
    return missing + [each for each in ("DASHBOARD_AGENT_LISTEN_PORT_NAME",) if not hasattr(raylet, each)]


def choose_ports(given: Sequence[str]) -> list[str]:
    """OPTIONS with ports on which nothing listens, nor will Ray's head, by its own option."""
    found: list[int] = []
    with contextlib.ExitStack() as taken:
        for port in random.SystemRandom().sample(range(FIRST, LAST), 1000):
            if len(found) < len(OPTIONS) and f"--port={port}" not in given:
                with contextlib.suppress(OSError):
                    taken.enter_context(socket.socket()).bind(("0.0.0.0", port))
                    found.append(port)
    return [f"{option}={port}" for option, port in zip(OPTIONS, found)]


def announce_http_port(services: Any, raylet: Any) -> None:
    """Makes `services.start_raylet` write the one port that a raylet reads only from a file.

    Source: `Node.start_raylet` in `ray/_private/node.py` and `DashboardAgent` in `ray/dashboard/agent.py`.
    """
    start = services.start_raylet

    @functools.wraps(start)
    def start_raylet(*arguments: Any, **options: Any) -> Any:
        bound = inspect.signature(start).bind(*arguments, **options).arguments
        name, port = raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME, bound["dashboard_agent_listen_port"]
        raylet.persist_port(bound["session_dir"], bound["node_id"], name, port)
        return start(*arguments, **options)

    services.start_raylet = start_raylet
