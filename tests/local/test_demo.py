"""`make demo` as a user runs it: to its end, and interrupted on the way."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.demo import EPOCHS

from railhead.local.processes import MARKER, marked
from railhead.local.session import Session
from tests.local.test_session import read_until

PROJECT = Path(__file__).resolve().parents[2]
LONG = 600
LATER = ("phase Running", "kubectl delete pods")


def start_demo(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROJECT / "tools" / "demo.py")],
        env={**os.environ, "RAILHEAD_DEMO_DIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def find_session(folder: Path) -> Session:
    [run] = folder.iterdir()
    return Session(run)


def find_commands(folder: Path) -> list[str]:
    """Returns the command lines that name the folder, such as those of kubectl."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            found.append(path.read_text(errors="replace").replace("\0", " "))
    return [command for command in found if str(folder) in command]


def test_the_demo_kills_a_worker_and_proves_that_training_resumed(tmp_path: Path) -> None:
    process = start_demo(tmp_path)
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0, output
    assert re.search(r"  checkpoint \d+: ", output)
    # kubectl waits for the first checkpoint with a watch of its own, so the line above may come after this one.
    _, _, after = output.partition("now a worker is killed")
    assert "waiting: WorkerLost: 1 of 2 worker pods were lost" in after
    resumed = re.search(r"  training resumed after epoch (\d+), from the checkpoint \S+/checkpoint_", after)
    assert resumed is not None and int(resumed[1]) < EPOCHS - 1
    assert f"epoch {EPOCHS - 1}, " in after
    assert "attempts: 1; rounds in which worker pods were replaced: 1" in after
    assert "proven: the job trained on after losing a worker" in after
    assert marked(MARKER, find_session(tmp_path).marker) == []


@pytest.mark.slow  # tests/local/test_session.py interrupts `up` and `run`, and ends a session
@pytest.mark.parametrize("text", LATER)
def test_interrupted_demo_leaves_nothing(tmp_path: Path, text: str) -> None:
    process = start_demo(tmp_path)
    read_until(process, text)
    session = find_session(tmp_path)
    temp = session.temp_folder()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode == 130, output
    assert marked(MARKER, session.marker, folder=temp) == []
    assert find_commands(tmp_path) == []
    assert temp is not None and not temp.exists()
