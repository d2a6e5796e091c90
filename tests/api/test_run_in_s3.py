"""`metrics`, `checkpoints` and `logs` of a run in a real S3 server, by the user's own credentials."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.client.exit_codes import ExitCode
from railhead.contract.history_format import Header, write_line
from railhead.contract.run_folder import name_attempt
from tests.api.conftest import RUNS_COMMANDS, Run
from tests.api.server import ApiServer
from tests.api.test_client import create, report
from tests.s3 import S3, start_s3

pytestmark = RUNS_COMMANDS
METRICS = {"loss": 0.25}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with start_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def job(s3: S3, api_server: ApiServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes a job that has ended, with its run in the store; the credentials are in the environment."""
    for name, value in {**s3.environment, "RAILHEAD_ENDPOINTS": s3.endpoint}.items():
        monkeypatch.setenv(name, value)
    uid = create(api_server, "digits", run={"storagePath": s3.build_uri("runs")}, scaling={"numWorkers": 2})[
        "metadata"
    ]["uid"]
    folder = f"runs/digits-{uid[:8]}"
    report(api_server, "digits", phase="Succeeded", attempt=1, runURI=s3.build_uri(folder))
    record = {"time": "2026-11-25T10:00:01.000Z", "attempt": 1, "report": 1, "metrics": METRICS}
    entry = {"checkpoint_dir_name": "checkpoint_1", "metrics": METRICS}
    snapshot = {"checkpoint_results": [entry], "latest_checkpoint_result": entry}
    files = {
        ".railhead/metrics/1-ab-1.jsonl": Header("metrics", uid).to_line() + write_line(record),
        f".railhead/logs/{name_attempt(uid, 1)}/1/r0-w1-000000.log.gz": gzip.compress(b"2026-11-25T10:00:00Z killed\n"),
        "checkpoint_manager_snapshot.json": json.dumps(snapshot).encode(),
        "checkpoint_1/model.pt": b"weights",
    }
    for name, data in files.items():
        s3.put(f"{folder}/{name}", data)
    return "digits"


def test_curves_checkpoints_and_logs_come_from_the_store(
    job: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("metrics", job, "-o", "csv") == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("0.25")
    assert run("checkpoints", job, "--download", str(tmp_path / "copy")) == 0
    assert (tmp_path / "copy" / "model.pt").read_bytes() == b"weights"
    capsys.readouterr()
    assert run("logs", job, "--rank", "1", "--attempt", "1") == 0
    assert capsys.readouterr().out == "killed\n"


def test_credentials_are_sent_to_no_host_that_the_reader_has_not_named(
    s3: S3, job: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAILHEAD_ENDPOINTS")
    for command in (("metrics", job), ("checkpoints", job), ("logs", job, "--rank", "1")):
        assert run(*command) == ExitCode.DENIED
        said = capsys.readouterr().err
        assert f"the job's author has put the run at {s3.endpoint}" in said
        assert f"add --endpoint {s3.endpoint}" in said
        assert run(*command, "--endpoint", s3.endpoint) == 0
        capsys.readouterr()


def test_a_wrong_key_is_said_to_be_the_users(
    job: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    for command in (("metrics", job), ("checkpoints", job), ("logs", job, "--rank", "1")):
        assert run(*command) == ExitCode.DENIED
        said = capsys.readouterr().err
        assert "with the credentials of this machine" in said and "ACCESS_DENIED" in said


def test_a_missing_bucket_is_no_empty_run(s3: S3, job: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("metrics", job, "--folder", s3.build_uri("runs/x", bucket="none-such")) == ExitCode.FAILED
    assert "there is no bucket none-such" in capsys.readouterr().err
    assert run("metrics", job, "--folder", s3.build_uri("runs/x")) == ExitCode.FAILED
    assert "has no reports of digits" in capsys.readouterr().err
