"""Checks before training: the module, the storage, the head's name."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from railhead.driver.container.hosts import DNS_WAIT_SECONDS, compute_pause, find_address
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.storage.write_check import prepare_storage
from tests.unit.driver.storage.waiting import Waits, refuse_to_wait


def test_storage_check_leaves_no_files(tmp_path: Path) -> None:
    assert prepare_storage(str(tmp_path / "runs"), run_name="r", warn=refuse_to_wait) == f"{tmp_path}/runs/r"
    assert list((tmp_path / "runs" / "r").iterdir()) == []


def test_rejects_a_file_as_storage_with_the_original_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobRefused, match=r"run\.storagePath .* NotADirectoryError"):
        prepare_storage(str(tmp_path / "file"), run_name="r", warn=refuse_to_wait)


def test_storage_by_uri(tmp_path: Path) -> None:
    assert prepare_storage(f"file://{tmp_path}/runs", run_name="r", warn=refuse_to_wait) == f"file://{tmp_path}/runs/r"
    with pytest.raises(JobRefused, match=r"run\.storagePath nosuch://bucket"):
        prepare_storage("nosuch://bucket", run_name="r", warn=refuse_to_wait)


def test_hosts_file_comes_first(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# a comment\n127.0.0.5 other head.ns.svc # mine\n")
    assert find_address("head.ns.svc", own="127.0.0.9", hosts_file=str(hosts)) == "127.0.0.5"
    hosts.write_text("127.0.0.5 head\n127.0.0.6 head\n")
    assert find_address("head", own="127.0.0.9", hosts_file=str(hosts)) == "127.0.0.6"
    assert find_address("127.0.0.9", own="127.0.0.9", hosts_file=str(tmp_path / "absent")) == "127.0.0.9"


@pytest.mark.parametrize(
    ("own", "addresses", "found"),
    [
        ("10.0.0.9", ["fd00::5", "10.0.0.5"], "10.0.0.5"),
        ("fd00::9", ["10.0.0.5", "fd00::5"], "fd00::5"),
        ("fd00::9", ["10.0.0.5"], "10.0.0.5"),
        ("10.0.0.9", ["fd00::5"], "fd00::5"),
    ],
)
def test_the_heads_address_is_of_the_pods_own_family(
    monkeypatch: pytest.MonkeyPatch, own: str, addresses: list[str], found: str
) -> None:
    """Ray's head listens at its pod's first address, and a name may have one of each family."""
    answers = [(0, 0, 0, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    assert find_address("head", own=own, hosts_file=None) == found


def test_waits_for_dns_double_up_to_a_bound() -> None:
    """512 pods that wait for a head send the cluster's DNS about 100 queries per second, not 5,000."""
    first, longest = DNS_WAIT_SECONDS
    waits = [compute_pause(tries, first=first, longest=longest) for tries in range(5)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0]
    assert compute_pause(10_000, first=first, longest=longest) == 5.0


def test_a_full_disk_is_retryable_and_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_full(path: Path, data: bytes) -> int:
        path.touch()
        assert data, "a full disk takes an empty file"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", run_full)
    with pytest.raises(Waits, match=r"run\.storagePath .* No space left on device"):
        prepare_storage(str(tmp_path), run_name="r", warn=refuse_to_wait)
    assert list((tmp_path / "r").iterdir()) == []
