"""The init container of a job with spec.source.git: fetches the commit, reports the outcome, exits with its code."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Mapping, NoReturn, Optional

from railhead.contract import environment as e
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import CHECKOUT, FILE, JobInput
from railhead.driver.describe import log, read_text
from railhead.driver.ending import build_outcome, write_termination_message
from railhead.driver.git import FIELD, FetchedCommit, FetchProblem, Git, answer_git, check_credentials, fetch_commit


def run_fetch(environment: Mapping[str, str]) -> NoReturn:
    signal.signal(signal.SIGTERM, _exit_at_once)
    job = JobInput.from_json(Path(environment[e.INPUT], FILE).read_text())
    try:
        fetch(environment, job.git)
    except FetchProblem as problem:
        _end(problem.failure, environment.get(e.TERMINATION_MESSAGE))
    except OSError as error:  # a full disk, an unreadable Secret
        message = f"{FIELD}: {type(error).__name__}: {read_text(error)}"
        _end(Failure(FailureClass.INFRASTRUCTURE, "SourceNotFetched", message), environment.get(e.TERMINATION_MESSAGE))
    os._exit(0)


def _end(failure: Failure, termination_message: Optional[str]) -> NoReturn:
    write_termination_message(build_outcome(failure).to_json(), termination_message)
    log(f"{failure.class_}: {failure.message}")
    os._exit(failure.class_.exit_code)


def fetch(environment: Mapping[str, str], wanted: Mapping[str, Any]) -> None:
    """`wanted`: spec.source.git. Raises FetchProblem."""
    commit = FetchedCommit(wanted["repository"], wanted["revision"], wanted.get("path") or "")
    folder = environment.get(e.GIT_CREDENTIALS)
    credentials = Path(folder) if folder else None
    if credentials is not None:
        check_credentials(credentials, repository=commit.repository, secret=wanted["secretName"])
    home = Path(environment[e.TEMP])
    git = Git(environment, home=home, credentials=credentials, bundle=environment[e.BUNDLE])
    log(f"fetching commit {commit.revision} of {commit.repository}")
    fetch_commit(git, commit, Path(environment[e.SOURCE], CHECKOUT))
    log("the commit is checked out")


def run_credential(arguments: list[str]) -> None:
    """`credential FOLDER OPERATION`: git calls this while it fetches."""
    folder, operation = arguments
    print(answer_git(Path(folder), operation), end="")


def _exit_at_once(*_: Any) -> NoReturn:
    """PID 1 of a container ignores SIGTERM without a handler."""
    os._exit(128 + signal.SIGTERM)
