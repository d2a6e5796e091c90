"""S3: the driver's checks before training, against a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.train import Checkpoint
from ray.train.v2._internal.execution.storage import StorageContext

from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.failure import FailureClass
from railhead.driver.fit.acquire_run import check_resume_from
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.storage.write_check import prepare_storage
from tests.ray.pods import Pods, make_job
from tests.s3 import BUCKET, S3, start_s3
from tests.unit.driver.storage.waiting import Waits, refuse_to_wait

WRONG = "a-secret-that-is-wrong-0123456789"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with start_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def credentials(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("credentials")
def test_the_endpoint_comes_from_the_uri_or_the_environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare_storage(s3.build_uri("by-uri"), run_name="r", warn=refuse_to_wait) == s3.build_uri("by-uri/r")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    assert (
        prepare_storage(f"s3://{BUCKET}/by-environment", run_name="r", warn=refuse_to_wait)
        == f"s3://{BUCKET}/by-environment/r"
    )
    assert s3.list("by-uri/r") == s3.list("by-environment/r") != set()


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("name", ["epoch=0 val loss=0.5.ckpt", "".join(map(chr, range(32, 127))).replace("/", "é")])
def test_another_job_starts_from_a_checkpoint_with_any_name(s3: S3, tmp_path: Path, name: str) -> None:
    """Ray uploads it, and its URI is what the status shows and `ray.train.Checkpoint` opens."""
    (tmp_path / "weights").write_text("w")
    storage = StorageContext(storage_path=s3.build_uri("names"), experiment_dir_name="r")
    storage.persist_current_checkpoint(Checkpoint(str(tmp_path)), name)
    uri = build_checkpoint_uri(s3.build_uri("names/r"), name)
    check_resume_from(uri, warn=refuse_to_wait)
    with Checkpoint(uri).as_directory() as folder:
        assert Path(folder, "weights").read_text() == "w"


@pytest.mark.usefixtures("credentials")
def test_a_missing_bucket_is_rejected(s3: S3) -> None:
    with pytest.raises(JobRefused, match=r"run\.storagePath s3://absent/x.*Bucket 'absent' not found"):
        prepare_storage(s3.build_uri("x", bucket="absent"), run_name="r", warn=refuse_to_wait)


@pytest.mark.slow  # the tries of pyarrow take 15 s; tests/unit/driver/storage/test_waiting.py has what follows
@pytest.mark.usefixtures("credentials")
def test_an_endpoint_that_does_not_answer_is_retriable_and_detected_soon() -> None:
    began = time.monotonic()
    with pytest.raises(Waits, match=r"run\.storagePath s3://b/x.* cannot be reached: .*Could not connect"):
        prepare_storage("s3://b/x?endpoint_override=127.0.0.1:9&scheme=http", run_name="r", warn=refuse_to_wait)
    assert time.monotonic() - began < 60


def test_wrong_credentials_end_the_job_before_workers_start_and_are_never_printed(s3: S3, tmp_path: Path) -> None:
    job = make_job(framework="Python", storage_path=s3.build_uri("runs"))
    with Pods(tmp_path, job, source={"user.py": "def train_func(): pass"}) as pods:
        pods.start_head(AWS_ACCESS_KEY_ID=s3.key, AWS_SECRET_ACCESS_KEY=WRONG)
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.reason == "StorageRefused"
        assert outcome.message.startswith(f"run.storagePath {job.storage_path} cannot be written: ")
        assert "ACCESS_DENIED" in outcome.message and "spec.envFrom" in outcome.message
        output = outcome.to_json() + pods.read_log() + str(pods.reports)
        assert WRONG not in output and s3.key not in output
