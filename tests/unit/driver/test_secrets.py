"""Every way out of the driver: termination message, report, log. An error that is full of credentials takes each."""

from __future__ import annotations

import queue
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import JobInput, ScalingInput
from railhead.contract.outcome import Outcome
from railhead.contract.report import Report, RunWarning
from railhead.driver.archive.pod_archive import Archive
from railhead.driver.container.pod_input import Pod
from railhead.driver.fit.users_trainer import place_run
from railhead.driver.head import publisher as publisher_module
from railhead.driver.head.end_attempt import Head, end
from railhead.driver.head.publisher import Endpoint, Publisher
from railhead.driver.head.rank_stream import Ranks
from railhead.driver.head.run_recorder import RunRecorder
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import AttemptFailed, CallbackRaised, TrainingError, build_training_error
from railhead.driver.messages.exception_text import describe_exception, format_traceback, read_text
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.pod.fetch_source import explain_output
from railhead.driver.storage.storage_call import call_storage
from railhead.driver.train_controller.failures.failure_policy import RetryDecider
from railhead.driver.train_controller.fence_step import warn
from railhead.driver.train_controller.worker_group import Group

MARK = "s3cr3t"
TOKEN = f"eyJ{MARK}AAAA.eyJhdWQiOiJ{MARK}.{MARK}"
ENVIRONMENT = {
    name: f"{MARK}-of-{name}"
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "AZURE_STORAGE_SAS",
        "HF_TOKEN",
        "WANDB_API_KEY",
        "PGPASSWORD",
        "MYSQL_PASSWD",
    )
}
TEXT = "; ".join(
    [
        f"cannot open s3://AKIA:{MARK}/x@bucket/runs, s3://{MARK}@bucket/runs or https://user:{MARK}@host/repo.git",
        f"GET https://account.blob/c?sv=1&sig={MARK}&se=2 with Authorization: Bearer {MARK}-0123456789",
        f"pip install git+https://user:{MARK}@git.example/a.git; token {TOKEN}",
        *ENVIRONMENT.values(),
    ]
)
BASE = Report(namespace="ns", name="n", uid="u", attempt=1, state="STARTING")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def make_pod(folder: Path) -> Pod:
    message = str(folder / "termination")
    return Pod(folder, "", "", "", 0, folder, 1, -1, None, None, None, None, termination_message=message)


def read_report(mailbox: Mailbox) -> str:
    return Publisher(endpoint=None, mailbox=mailbox, base=BASE).build_report().to_json().decode()


def test_the_text_is_full_of_them() -> None:
    assert TEXT.count(MARK) > 15


def test_no_description_of_an_exception_has_one() -> None:
    try:
        raise OSError(TEXT)
    except OSError as error:
        texts = (describe_exception(error), read_text(error), format_traceback(error))
        on_a_rank = build_training_error(RankErrorKind.RAISED, 0, error).text
    assert all("cannot open s3://" in text and MARK not in text for text in (*texts, on_a_rank))


def test_no_message_about_storage_has_one() -> None:
    def fail() -> NoReturn:
        raise OSError(TEXT)

    with pytest.raises(AttemptFailed) as caught:
        call_storage("s3://bucket/runs", fail, warn=print)
    assert MARK not in caught.value.failure.message


def test_no_message_about_a_repository_has_one() -> None:
    output = f"fatal: unable to access 'https://user:{MARK}@host/a.git/': error: 403\nfatal: {TEXT}"
    problem = explain_output(output, repository="https://host/a.git")
    assert "https://(hidden)@host/a.git/" in problem.failure.message and MARK not in problem.failure.message


@pytest.mark.parametrize(
    "error",
    [
        ControllerError(CallbackRaised(TEXT)),
        ControllerError(OSError(TEXT)),
        WorkerGroupError("failed", {0: OSError(TEXT)}),
        WorkerGroupError("failed", {0: TrainingError(RankErrorKind.RAISED, 0, TEXT)}),
    ],
)
@pytest.mark.parametrize("retries", [0, 9])
def test_no_restart_and_no_failure_of_the_controller_has_one(
    tmp_path: Path, error: Exception, retries: int, capfd: pytest.CaptureFixture[str]
) -> None:
    RetryDecider(Group(), Mailbox(tmp_path), max_failures=retries).decide(error)
    report = read_report(Mailbox(tmp_path))
    found = "".join(path.read_text() for path in tmp_path.iterdir() if path.is_file())
    assert "hidden" in found and MARK not in found + report
    assert MARK not in "".join(capfd.readouterr())


def test_no_warning_has_one(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    warn(mailbox.controller, "StorageUnreachable", TEXT)
    assert mailbox.controller.read().warning != RunWarning()
    assert MARK not in read_report(mailbox)


def test_a_run_at_a_path_of_the_users_own_has_none() -> None:
    path = f"s3://AKIA:{MARK}/x@other/runs?region=eu&secret_key={MARK}"
    config = SimpleNamespace(storage_path=path, name="run")
    run = place_run(config, "run", "/runs", job_path="/runs")
    assert run.run_uri == "s3://other/runs/run?region=eu"
    assert run.warning is not None and MARK not in run.warning.message


def test_no_end_of_an_attempt_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever the failure was built from."""
    monkeypatch.setattr("os._exit", sys.exit)
    mailbox, pod = Mailbox(tmp_path), make_pod(tmp_path)
    publisher = Publisher(endpoint=None, mailbox=mailbox, base=BASE)
    publisher.start()
    job = JobInput("ns", "n", "u", "run", ScalingInput(1), 1)
    with pytest.raises(SystemExit):
        end(
            Head(pod, job, mailbox, publisher, Ranks(), Archive(), RunRecorder(pod, job, publisher, mailbox)),
            Failure(FailureClass.INFRASTRUCTURE, "RayHeadEnded", TEXT),
        )
    message = (tmp_path / "termination").read_text()
    outcome = Outcome.from_json(message)
    assert outcome is not None and "(hidden)" in outcome.message
    assert MARK not in message + publisher.build_report().to_json().decode() + "".join(capfd.readouterr())


def test_a_token_that_is_no_header_is_not_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """http.client names the value of a header that it does not send."""
    (tmp_path / "token").write_text(f"{TOKEN}\n{TOKEN}")
    endpoint = Endpoint("http://127.0.0.1:9", str(tmp_path / "token"), None)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(publisher_module, "log", lines.put)
    publisher = Publisher(endpoint=endpoint, mailbox=Mailbox(tmp_path), base=BASE)
    publisher.start()
    line = lines.get(timeout=30)
    publisher.begin_stop()
    publisher.wait_stopped(0.0)
    publisher._thread.join()
    assert "did not accept a report (ValueError: Invalid header value" in line and MARK not in line
