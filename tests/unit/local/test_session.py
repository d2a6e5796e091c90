"""A damaged state file counts as stopped, and `down` cleans up after crashes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from railhead.local import LocalError
from railhead.local.processes import MARKER, Identity, identify, spawn
from railhead.local.session import (
    READY,
    STOPPED,
    SUPERVISOR,
    Capacity,
    Session,
    State,
    default_capacity,
    parse_state,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_state_round_trips(tmp_path: Path) -> None:
    session = Session(tmp_path)
    state = State(READY, "", "https://127.0.0.1:1", 4, {SUPERVISOR: Identity(7, 42.0), "etcd": Identity(8, 43.5)})
    session.write_state(state)
    assert session.state() == state


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"phase": "ready"}', '{"processes": 3}'])
def test_unreadable_state_counts_as_stopped(text: str) -> None:
    assert parse_state(text).phase == STOPPED


def test_a_session_without_a_folder_is_not_up(tmp_path: Path) -> None:
    session = Session(tmp_path / "none")
    assert not session.is_up()
    assert session.down() == 0


def test_session_is_up_only_while_its_supervisor_lives(tmp_path: Path) -> None:
    session = Session(tmp_path)
    process = spawn(SLEEP, log=tmp_path / "log")
    identity = identify(process.pid)
    assert identity is not None
    session.write_state(State(READY, processes={SUPERVISOR: identity}))
    assert session.is_up()
    with pytest.raises(LocalError, match="railhead local down"):
        session.refuse_if_up()
    process.kill()
    process.wait()
    assert not session.is_up()


def test_a_reused_pid_is_not_our_supervisor(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write_state(State(READY, processes={SUPERVISOR: Identity(os.getpid(), 1.0)}))
    assert not session.is_up()
    session.down()  # must not kill it: it is this process


def test_down_kills_processes_of_a_crashed_session(tmp_path: Path) -> None:
    session, other = Session(tmp_path / "one"), Session(tmp_path / "two")
    for each in (session, other):
        each.node.mkdir(parents=True)
    left = spawn(SLEEP, log=tmp_path / "log", env={**os.environ, MARKER: session.marker})
    foreign = spawn(SLEEP, log=tmp_path / "log", env={**os.environ, MARKER: other.marker})
    try:
        assert session.down() == 1
        assert left.wait() == -9
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_down_removes_the_agents_temporary_folder_and_nothing_else(tmp_path: Path) -> None:
    session = Session(tmp_path / "session")
    session.node.mkdir(parents=True)
    temp, precious = tmp_path / "rh-abc", tmp_path / "precious"
    for folder in (temp, precious):
        folder.mkdir()
    session.temp_note.write_text(str(precious))
    session.down()
    session.temp_note.write_text(str(temp))
    session.down()
    assert precious.is_dir()
    assert not temp.exists()


def test_up_reports_why_the_supervisor_ended(tmp_path: Path) -> None:
    """Here it finds no programs to start."""
    session = Session(tmp_path / "session")
    printed: list[str] = []
    with pytest.raises(LocalError, match="logs"):
        session.up(Capacity(1, 1 << 30), binaries=tmp_path / "none", echo=printed.append, is_ours_only=True)
    assert not session.is_up()


def test_node_claims_enough_for_a_small_job() -> None:
    capacity = default_capacity(gpus=4)
    assert capacity.cpus >= 16
    assert capacity.memory >= 32 << 30
    assert capacity.gpus == 4
