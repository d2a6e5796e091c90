"""Runs Ray's own command in this process, with hooks that only work inside the process."""

from __future__ import annotations

import sys

from railhead.driver.node.agent_ports import announce_http_port, choose_ports, needs_ports


def run_ray(arguments: list[str]) -> None:
    """Runs `ray start ...`; returns or exits when Ray does."""
    from ray._private import node, services
    from ray.scripts.scripts import main

    from ray import _raylet

    if needs_ports(_raylet):
        ports = choose_ports(reserved=_head_port(arguments))
        announce_http_port(services, _raylet, ports.http)
        arguments = [*arguments, *ports.to_arguments()]
    # A process and an open port that no TrainJob uses; `ray start` has no option to leave them out.
    node.Node.start_ray_client_server = lambda self: None
    sys.argv = ["ray", *arguments]
    main()


def _head_port(arguments: list[str]) -> int:
    """From `--port=`, on a head; nothing listens there yet."""
    found = [a.partition("=")[2] for a in arguments if a.startswith("--port=")]
    return int(found[0]) if found else 0
