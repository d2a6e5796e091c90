"""The command line: exit codes, and messages instead of tracebacks."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead import __version__
from railhead.cli import local_run
from railhead.cli.local_options import uninterrupted
from railhead.cli.main import main
from railhead.local.session import SessionError
from railhead.resources.bundle import build_bundle, bundle_name


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """main() takes over signals; pytest gets them back."""
    kept = {sig: signal.getsignal(sig) for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    yield
    for sig, handler in kept.items():
        signal.signal(sig, handler)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert "railhead 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["local"], ["local", "run"], ["local", "up", "--gpus", "-1"], ["local", "up", "--gpus", "many"]]
)
def test_rejects_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["operator"], ["version"], ["local", "up"], ["local", "down"], ["local", "status"], ["local", "run"]]
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([*command, "--help"])
    assert exit_.value.code == 0
    assert "usage: railhead" in capsys.readouterr().out


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


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (SessionError("a sentence"), 1), (BrokenPipeError(), 1)]
)
def test_known_errors_become_exit_codes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, code: int
) -> None:
    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr(local_run, "run", fail)
    monkeypatch.setattr("os.dup2", lambda new, old: None)  # stdout is pytest's
    assert main(["local", "run", "-f", "x.yaml", "--dir", str(tmp_path)]) == code


def test_termination_cleans_up_like_an_interruption(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def be_terminated(options: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(local_run, "run", be_terminated)
    assert main(["local", "run", "-f", "x.yaml", "--dir", str(tmp_path)]) == 130


def test_cleaning_up_is_not_interrupted() -> None:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_version_lists_compatible_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    output = capsys.readouterr().out
    assert re.search(rf"^railhead +{re.escape(__version__)}$", output, re.MULTILINE)
    assert re.search(r"^Ray +2\.52 or newer .*scaling\.minWorkers 2\.55", output, re.MULTILINE)
    assert re.search(rf"^driver +ConfigMap {bundle_name(build_bundle())}$", output, re.MULTILINE)
    assert re.search(
        rf"^CRD +trainjobs\.railhead\.dev v1alpha1, of Railhead {re.escape(__version__)}", output, re.MULTILINE
    )
