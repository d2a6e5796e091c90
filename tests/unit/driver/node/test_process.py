"""Which processes die with a child, and which survive."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.driver.node.process import find_descendants, kill_child, kill_workers, read_parents
from tests.waiting import wait_until

# Like `ray start` with its raylet, the raylet's agent, and a worker with its own child process.
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
        wait_until("all processes run", lambda: "users-process" in list_titles(process))
        yield process
        kill_child(process)


def list_titles(process: subprocess.Popen[bytes]) -> set[str]:
    titles = set()
    for pid in find_descendants(process.pid, read_parents()):
        with contextlib.suppress(OSError):  # it may end at any moment
            titles.add(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0])
    return titles - {"", "bash"}


def test_kill_workers_keeps_rays_daemons(node: subprocess.Popen[bytes]) -> None:
    kill_workers(node)
    wait_until("the workers are gone", lambda: list_titles(node) == {"raylet", "ray::DashboardAgent"})
    assert node.poll() is None


def test_kill_child_kills_all_its_descendants(node: subprocess.Popen[bytes]) -> None:
    pids = find_descendants(node.pid, read_parents())
    kill_child(node)
    node.wait()
    wait_until("all are gone", lambda: not set(pids) & read_parents().keys())
