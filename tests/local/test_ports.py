"""Ports that are chosen before a server listens there: nothing else may take them meanwhile."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from railhead.api import names
from railhead.local import ports
from railhead.local.ports import PORTS, free_port


def test_no_outgoing_connection_uses_these_ports() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if lowest < 32768:
        pytest.skip("this machine gives outgoing connections lower ports than Linux does by default")
    assert free_port() in PORTS and PORTS.stop <= lowest


def test_no_jobs_head_uses_these_ports() -> None:
    assert not {names.head_port(f"{number:08x}", attempt) for number in range(5000) for attempt in (1, 9)} & set(PORTS)


def test_a_port_in_use_on_any_address_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        for port in PORTS:
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.9", port))
                break
        taken.listen()
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        monkeypatch.setattr(ports, "TRIES", 1)
        with pytest.raises(OSError, match="no free port among 1 tried"):
            free_port()


def test_a_port_is_returned_once_even_while_nothing_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
    monkeypatch.setattr(ports, "TRIES", 1)
    with pytest.raises(OSError, match="no free port among 1 tried"):
        free_port()
    code = "from railhead.local import ports; ports.PORTS, ports.TRIES = range({0}, {0} + 1), 1; ports.free_port()"
    other = subprocess.run([sys.executable, "-c", code.format(port)], capture_output=True, text=True, check=False)
    assert "no free port among 1 tried" in other.stderr, "another process got it"
