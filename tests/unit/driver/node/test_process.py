"""What is killed with a child, and what is spared."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.driver.node.process import find_descendants, kill_child, kill_workers, read_parents
from tests.waiting import wait_until

# As `ray start` is with its raylet, that one's agent, and a worker with a process of its own.
NODE = """
exec -a raystart bash -c '
  (exec -a raylet bash -c "
     (exec -a ray::DashboardAgent sleep 60) &
     (exec -a ray::TrainController bash -c \\"(exec -a users-process sleep 60) & wait\\") &
     wait") &
  wait'
"""


@pytest.fixture
def node() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["bash", "-c", NODE]) as process:
        wait_until("the processes are there", lambda: "users-process" in list_titles(process))
        yield process
        kill_child(process)


def list_titles(process: subprocess.Popen[bytes]) -> set[str]:
    titles = set()
    for pid in find_descendants(process.pid, read_parents()):
        with contextlib.suppress(OSError):  # it may end at any moment
            titles.add(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0])
    return titles - {"", "bash"}


def test_a_rays_node_loses_its_workers_and_keeps_its_daemons(node: subprocess.Popen[bytes]) -> None:
    kill_workers(node)
    wait_until("the workers are gone", lambda: list_titles(node) == {"raylet", "ray::DashboardAgent"})
    assert node.poll() is None


def test_a_child_goes_with_all_that_it_started(node: subprocess.Popen[bytes]) -> None:
    pids = find_descendants(node.pid, read_parents())
    kill_child(node)
    node.wait()
    wait_until("all are gone", lambda: not set(pids) & read_parents().keys())
