"""Ranks in tests of the driver have their controller's permission, unless a test takes it away; no test starts Ray,
and none the heartbeat. What a test changes in the environment ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from railhead.driver.rank import run
from railhead.driver.train_controller import progress


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """The driver writes into its process's environment, for the processes that it starts."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_is_permitted", True)


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would outlive the test."""
    monkeypatch.setattr(progress, "watch_steps", lambda group, worker_group, box: None)


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every function of Ray starts a cluster if there is none, and its end would take this process with it."""

    def start(*_: Any, **__: Any) -> None:
        pytest.fail("a unit test starts Ray")  # not an Exception, which the driver may suppress

    monkeypatch.setattr("ray.init", start)
