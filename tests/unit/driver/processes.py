"""A rank's process, as Ray describes it to its controller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Process:
    """A process that does not exist."""

    node_id: str
    pid: int
    node_ip: str = ""
    hostname: str = ""
