"""`railhead runs`, and the other commands that read a run's folder without its TrainJob."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from tools.cli_schemas import build_schema

from railhead.cli.main import main
from railhead.client.exit_codes import ExitCode
from railhead.client.outputs import OUTPUTS
from railhead.contract.report import CommittedCheckpoint
from railhead.contract.run_folder import RECORD
from railhead.contract.run_record import RecordedAttempt, RecordedEnvironment, RecordedSpec, RunRecord
from railhead.contract.spent import Spent
from railhead.contract.times import format_time
from tests.unit.client.run_folder import HOSTILE, UID, write_run

FIRST = RecordedAttempt(
    UID,
    1,
    "p",
    "2026-11-25T10:00:00Z",
    "2026-11-25T11:00:00Z",
    outcome="Application",
    reason="TrainFunctionRaised",
    message=f"ValueError: {HOSTILE}",
    spent=Spent(productive=1_800_000, starting=60_000),
)
DIGITS = RunRecord(
    "team-a",
    "digits",
    UID,
    run_uri="s3://b/r/digits",
    tracker_url="https://t/runs/1",
    spec=RecordedSpec(train_func="train:f", train_loop_config={"lr": HOSTILE}, num_workers=2, score_attribute="loss"),
    environment=RecordedEnvironment(f"image:1{HOSTILE}", {"ray": "2.60.0"}, code="abc"),
    attempts=(FIRST,),
    best_checkpoint=CommittedCheckpoint("s3://b/r/checkpoint_1", 0, "2026-11-25T10:00:01Z", {"loss": "0.5"}, 1),
    metrics={"loss": "0.125"},
)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A storage with the run digits, which has failed, and one that is alive."""
    runs = tmp_path / "runs"
    for name in ("digits", "living"):
        (runs / name).mkdir(parents=True)
    write_run(runs / "digits")
    (runs / "digits" / RECORD).write_bytes(DIGITS.to_json())
    now = format_time(datetime.now(UTC))
    alive = replace(FIRST, outcome="", reason="", message="", seen=now, started=now)
    (runs / "living" / ".railhead").mkdir()
    (runs / "living" / RECORD).write_bytes(replace(DIGITS, name="living", attempts=(alive,)).to_json())
    return runs


def show(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main([str(each) for each in arguments]) == code
    return capsys.readouterr().out


def test_the_runs_of_a_storage_are_a_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title, living, digits = show(capsys, "runs", runs).splitlines()
    assert title.split() == [
        "NAME",
        "STATE",
        "REASON",
        "STARTED",
        "DURATION",
        "ATTEMPTS",
        "GOODPUT",
        "BEST",
        "CHECKPOINT",
    ]
    assert living.split()[:3] == ["living", "Running", "-"]
    assert digits.split()[:3] == ["digits", "Failed", "TrainFunctionRaised"]
    assert " 1h " in digits and " 50.0% " in digits and " loss 0.5 " in digits


def test_a_storage_without_runs_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, "runs", tmp_path) == f"{tmp_path} has no run with a record.\n"


def test_a_run_opens_with_attempts_checkpoints_and_what_happened(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = show(capsys, "runs", runs, "digits")
    for part in (
        "Job          team-a/digits",
        "Goodput      50.0% of 1h; lost: other 29m, starting 1m",
        "Code         train:f",
        "Code digest  abc",
        f"Folder       {runs}/digits",
        "Tracker      https://t/runs/1",
        "  1: Application TrainFunctionRaised: ValueError: line",
        "checkpoint_1",
        "AttemptStarted",
        "journal",
    ):
        assert part in text, part
    assert all(line.isprintable() for line in text.splitlines())
    (line,) = [line for line in text.splitlines() if line.startswith("checkpoint_1")]
    assert " best " in line


def test_a_folder_that_cannot_be_read_leaves_the_record(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "digits" / "checkpoint_manager_snapshot.json").write_text("{")
    assert main(["runs", str(runs), "digits"]) == 0
    shown = capsys.readouterr()
    assert "Application TrainFunctionRaised" in shown.out
    assert "checkpoint_manager_snapshot.json" in shown.err and "cannot be read" in shown.err


@pytest.mark.parametrize("name", [[], ["digits"]])
def test_json_has_the_schema_of_the_reference(runs: Path, name: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(show(capsys, "runs", runs, *name, "-o", "json"))
    jsonschema.Draft202012Validator(build_schema(OUTPUTS["runs"])).validate(found)
    assert found["runs"][-1]["name"] == "digits" and found["runs"][-1]["goodput"] == 50.0
    assert bool(found["details"]) == bool(name)
    assert show(capsys, "runs", runs, *name, "-o", "yaml").startswith("runs:")


def test_what_cannot_be_read_is_remarked(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "living" / RECORD).write_text("{")
    assert main(["runs", str(runs)]) == 0
    assert "The record of living cannot be read: it is damaged" in capsys.readouterr().err
    assert main(["runs", str(runs), "nope"]) == ExitCode.NOT_FOUND
    assert "has no record of a run nope: there is none" in capsys.readouterr().err


def test_a_list_imports_no_client_of_a_cluster(runs: Path) -> None:
    program = (
        "import sys; from railhead.cli.main import main; code = main(sys.argv[1:]);"
        "sys.exit(code or next((m for m in ('kubernetes', 'aiohttp', 'railhead.planning') if m in sys.modules), 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "runs", str(runs)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_curves_checkpoints_and_logs_come_from_the_folder_without_a_cluster(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs / "digits"
    assert "0.125" in show(capsys, "metrics", "digits", "--metric", "loss", "--folder", folder)
    table = show(capsys, "checkpoints", "digits", "--folder", folder)
    assert "best" in table.splitlines()[1] and "lost" in table.splitlines()[2]
    show(capsys, "checkpoints", "digits", "--folder", folder, "--download", tmp_path / "copy")
    assert (tmp_path / "copy" / "model.pt").read_bytes() == b"weights"
    assert "one of 0" in show(capsys, "logs", "digits", "--rank", 0, "--folder", folder)
    assert "[rank 1] one of 1" in show(capsys, "logs", "digits", "--all", "--folder", folder)


def test_a_folder_without_a_record_is_read_as_well(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = runs / "digits"
    (folder / RECORD).unlink()
    assert "one of 0" in show(capsys, "logs", "digits", "--rank", 0, "--folder", folder)
    assert "best" not in show(capsys, "checkpoints", "digits", "--folder", folder)
    shutil.rmtree(folder / ".railhead" / "logs")
    assert main(["logs", "digits", "--folder", str(folder)]) == ExitCode.NOT_FOUND
    assert "the archive has no such lines of attempt 1; it has attempts: none" in capsys.readouterr().err


def test_a_folder_has_no_lines_to_follow_and_is_of_one_job(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(runs / "digits")
    assert main(["logs", "digits", "-f", "--folder", folder]) == ExitCode.USAGE
    assert "leave out --folder" in capsys.readouterr().err
    assert main(["metrics", "a", "b", "--folder", folder]) == ExitCode.USAGE
    assert "--folder is the run of one job" in capsys.readouterr().err
