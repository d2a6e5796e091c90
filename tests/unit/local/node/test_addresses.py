"""Each pod has its own address, even next to another agent on this machine."""

from __future__ import annotations

import ipaddress
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.local.node.addresses import AddressPool

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


@pytest.fixture(autouse=True, scope="module")
def lock_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Separate from the agents that run on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("addresses")
        patch.setattr(tempfile, "tempdir", str(folder))
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
