"""Ports and addresses that one process holds: no other process takes them meanwhile."""

from __future__ import annotations

import contextlib
import ipaddress
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.api import names
from railhead.local import addresses
from railhead.local.addresses import PORTS, AddressPool, free_port

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


@pytest.fixture(autouse=True, scope="module")
def lock_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Separates the locks from those of the agents that run on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("addresses")
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv("TMPDIR", str(folder))  # for other processes that the tests start
        yield folder


@pytest.fixture
def pool() -> Iterator[AddressPool]:
    pool = AddressPool()
    yield pool
    pool.close()


@settings(max_examples=25)
@given(st.lists(st.booleans(), max_size=600))
def test_no_two_pods_share_an_address(steps: list[bool]) -> None:
    pool = AddressPool()
    used: list[str] = []
    with closing(pool):
        for is_take in steps:
            if is_take and len(used) < 254:
                address = pool.take()
                assert address not in used
                assert ipaddress.ip_address(address) in LOOPBACK
                used.append(address)
            elif used:
                pool.give_back(used.pop(0))


def test_rejects_the_255th_pod_until_one_has_ended(pool: AddressPool) -> None:
    taken = [pool.take() for _ in range(254)]
    assert len(set(taken)) == 254
    with pytest.raises(RuntimeError, match="this node has no address left"):
        pool.take()
    pool.give_back(taken[7])
    assert pool.take() == taken[7]


def test_does_not_reuse_a_released_address_at_once(pool: AddressPool) -> None:
    """A client of the old pod should not reach a new one."""
    first = pool.take()
    pool.give_back(first)
    assert first not in [pool.take() for _ in range(253)]


def test_a_range_belongs_to_one_agent_until_it_ends(monkeypatch: pytest.MonkeyPatch, pool: AddressPool) -> None:
    _, second, third, _ = (int(part) for part in pool.take().split("."))
    free = (second % 254) + 1
    numbers = iter([second, third, free, third])
    monkeypatch.setattr(random, "randint", lambda low, high: next(numbers))
    other = AddressPool()
    with closing(other):
        assert other.prefix == f"127.{free}.{third}", "the first range was taken"


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
        monkeypatch.setattr(addresses, "PORTS", range(port, port + 1))
        monkeypatch.setattr(addresses, "TRIES", 1)
        with pytest.raises(OSError, match="no free port among 1 tried"):
            free_port()


def test_a_port_is_returned_once_even_while_nothing_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(addresses, "PORTS", range(port, port + 1))
    monkeypatch.setattr(addresses, "TRIES", 1)
    with pytest.raises(OSError, match="no free port among 1 tried"):
        free_port()
    code = "from railhead.local import addresses as a; a.PORTS, a.TRIES = range({0}, {0} + 1), 1; a.free_port()"
    other = subprocess.run([sys.executable, "-c", code.format(port)], capture_output=True, text=True, check=False)
    assert "no free port among 1 tried" in other.stderr, "another process got it"
