"""The command in the head pod that prints where the ranks are."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import pytest

from railhead.contract import environment
from railhead.driver.head import stacks
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import Stack
from railhead.resources.bundle import build_bundle
from tests.unit.driver.mailboxes import tell

FOUND = [Stack(0, "w-0", "at t.py:3 in load", "MainThread\n"), Stack(1)]


@pytest.fixture
def mailbox(tmp_path: Path) -> Mailbox:
    mailbox = Mailbox(tmp_path)
    tell(mailbox.controller, progress=Progress(state="RUNNING", is_training=True, processes=("a-1", "a-2")))
    return mailbox


def test_the_bundle_prints_what_the_controller_answers(mailbox: Mailbox, tmp_path: Path) -> None:
    """Without Ray and the packages of the image, as `railhead stacks` starts it."""
    bundle = tmp_path / "railhead.pyz"
    bundle.write_bytes(build_bundle())
    has_ended = threading.Event()

    def answer() -> None:
        while not has_ended.wait(0.02):
            mailbox.answer_requests(lambda: FOUND)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        run = [sys.executable, "-I", "-S", str(bundle), "stacks"]
        variables = {**os.environ, environment.TEMP: str(tmp_path)}
        done = subprocess.run(run, env=variables, capture_output=True, text=True, timeout=60, check=False)
    finally:
        has_ended.set()
        thread.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [asdict(each) for each in FOUND]


def test_without_an_answer_the_message_says_what_may_be_wrong(
    mailbox: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "WAIT_SECONDS", 0.05)
    with pytest.raises(SystemExit, match=r"does not respond .* or one of run.callbacks blocks"):
        stacks.run_stacks({environment.TEMP: str(tmp_path)})


def test_before_the_ranks_train_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no rank trains yet, or none any more"):
        stacks.run_stacks({environment.TEMP: str(tmp_path / "not yet there")})


def test_a_second_caller_is_told_and_asks_nothing(mailbox: Mailbox, tmp_path: Path) -> None:
    with (tmp_path / "stacks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another `railhead stacks` collects them now"):
            stacks.run_stacks({environment.TEMP: str(tmp_path)})
    mailbox.answer_requests(lambda: pytest.fail("there is no request"))
