"""Ranks in tests of the driver have their controller's permission, unless a test takes it away; no test starts Ray,
and none the heartbeat. What a test changes in the environment ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from railhead.contract import environment as e
from railhead.contract.job_input import FILE
from railhead.driver.container.run_context import STORAGE_PATH
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.rank import run_rank
from railhead.driver.train_controller import progress_step
from tests.ray.pods import make_job
from tests.unit.driver.mailboxes import tell


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """The driver writes into its process's environment, for the processes that it starts."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rank, "_is_permitted", True)


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would outlive the test."""
    monkeypatch.setattr(progress_step, "watch_steps", lambda group, worker_group, mailbox: None)


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every function of Ray starts a cluster if there is none, and its end would take this process with it."""

    def start(*_: Any, **__: Any) -> None:
        pytest.fail("a unit test starts Ray")  # not an Exception, which the driver may suppress

    monkeypatch.setattr("ray.init", start)


@pytest.fixture
def in_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """The environment of a script; the driver has already recorded every fit()."""
    (tmp_path / FILE).write_text(
        make_job(train_func="", entrypoint=["python"], run_name="the-run", storage_path=str(tmp_path)).to_json()
    )
    values = {e.INPUT: tmp_path, e.TEMP: tmp_path, e.BUNDLE: "x", e.POD_IP: "x", e.HEAD_HOST: "x", e.HEAD_PORT: 1}
    for name, value in {**values, STORAGE_PATH: tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("RAILHEAD_RUN", "")
    mailbox = Mailbox(tmp_path)
    tell(mailbox.driver, read_fits=9)
    return mailbox
