"""Logs after their pods are gone, with a real Ray: a killed rank's last line, and an earlier attempt's head log."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railhead.contract.environment import ATTEMPT
from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.job_input import JobInput
from tests.ray.pods import Pods, make_single_job
from tests.s3 import S3, start_s3

TRAINING = """
import logging, os, signal

def train_func():
    if os.environ.get("FAIL"):
        logging.getLogger().warning("through the logger")
        print("my last words, and not", os.environ["MY_TOKEN"], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print("all is well", flush=True)
"""
TOKEN = "a-token-that-no-archive-may-have"
Read = Callable[[], dict[str, bytes]]


def read_path(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def find(files: dict[str, bytes], source: str) -> str:
    """The lines of one source of attempt 1."""
    prefix = f".railhead/logs/0a1b2c3d-1/{source}/"
    return "".join(gzip.decompress(data).decode() for name, data in sorted(files.items()) if name.startswith(prefix))


def run_two_attempts(folder: Path, job: JobInput, storage: str | None, env: dict[str, str]) -> None:
    """The first loses its rank, and its pods are gone when the second one, which succeeds, begins."""
    with Pods(folder / "1", job, source={"user.py": TRAINING}, storage=storage) as first:
        first.start(workers=1, env={**env, "FAIL": "1", "MY_TOKEN": TOKEN})
        assert first.wait_ended() not in (SUCCEEDED_CODE, None), first.read_log()
        first.terminate("w0-0")
        first.wait_ended("w0-0", timeout=60)
        assert TOKEN in first.read_log("w0-0"), "the pod's log is the user's"
    with Pods(folder / "2", job, source={"user.py": TRAINING}, storage=storage) as second:
        second.start(workers=1, attempt=2, env={**env, ATTEMPT: "2"})
        assert second.wait_ended() == SUCCEEDED_CODE, second.read_log()
        second.terminate("w0-0")
        second.wait_ended("w0-0", timeout=60)


def check(files: dict[str, bytes], *, succeeded: int = 2) -> None:
    """`succeeded`: the attempt of which nothing is kept."""
    assert "Z my last words, and not (hidden)\n" in find(files, "0")
    assert "through the logger" in find(files, "train")
    assert "joining" not in find(files, "0") and "the Ray node exited with code" in find(files, "worker")
    head = find(files, "head")
    assert "starting Ray's head at" in head and "Application: " in head
    assert "my last words" not in head, "a rank's lines are with the rank"
    assert not any(f"/0a1b2c3d-{succeeded}/" in name for name in files), "Failed: nothing of the one that succeeded"


def make_job(**changes: object) -> JobInput:
    return make_single_job(
        archive_logs="Failed", archive_per_rank=2**22, archive_per_run=2**30, max_failures=0, **changes
    )


@pytest.mark.slow  # the rank is killed; in test_failures.py it raises
def test_they_are_read_from_a_path(tmp_path: Path) -> None:
    job, runs = make_job(), tmp_path / "runs"
    run_two_attempts(tmp_path, job, str(runs), {})
    files = read_path(runs / job.run_name)
    check(files)
    check_modes(runs / job.run_name)


def check_modes(run: Path) -> None:
    """Others than the owner and its group see nothing."""
    logs = run / ".railhead" / "logs"
    assert {path.stat().st_mode & 0o777 for path in (logs, *logs.rglob("*"))} == {0o640, 0o750}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with start_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.mark.slow  # the path has the same decisions
def test_they_are_read_from_s3(s3: S3, tmp_path: Path) -> None:
    job = make_job(storage_path=s3.build_uri("runs"))
    run_two_attempts(tmp_path, job, None, s3.environment)
    names = s3.list(f"runs/{job.run_name}")
    check({name: s3.get(f"runs/{job.run_name}/{name}") for name in names})
