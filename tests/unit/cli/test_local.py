"""The commands of `railhead local`: what they print without a session, and how they are interrupted."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from railhead.cli import local
from railhead.cli.local import TimedConsole, stop_command, uninterrupted
from railhead.cli.main import main
from railhead.cli.parser import default_folder


def test_reads_the_file_before_it_starts_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "run", "-f", str(tmp_path / "none.yaml"), "--dir", str(tmp_path / "s")]) == 1
    assert "none.yaml cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_status_without_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "status", "--dir", str(tmp_path)]) == 1
    assert "not up" in capsys.readouterr().out


def test_down_without_a_session_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "down", "--dir", str(tmp_path)]) == 0
    assert "no session is running" in capsys.readouterr().out


def test_termination_cleans_up_like_an_interruption(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def be_terminated(options: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(local, "do_run", be_terminated)
    assert main(["local", "run", "-f", "x.yaml", "--dir", str(tmp_path)]) == 130


def test_cleaning_up_is_not_interrupted() -> None:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_the_command_that_stops_a_session_names_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_LOCAL_DIR", str(tmp_path / "default"))
    assert stop_command(default_folder()) == "railhead local down"
    assert stop_command(tmp_path / "my session") == f"railhead local down --dir '{tmp_path}/my session'"


def test_a_terminal_acts_on_nothing_that_a_status_says(capsys: pytest.CaptureFixture[str]) -> None:
    TimedConsole().echo("Failed:\x1b]0;owned\x07\n  \x9b31mmore")
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable() and said.count("\n") == 2
