"""`railhead.training`: what it says on a rank, and outside of a TrainJob."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ray.train.v2._internal.execution import context as ray_context
from ray.train.v2._internal.execution.preemption import PreemptionContext
from ray.train.v2.api.preemption import PreemptionInfo

from railhead.contract import environment as e
from railhead.contract.trackers import RUN_ID
from railhead.driver.ray import train_context
from railhead.training import EndNotice, attempt, end_notice, run_id


@pytest.fixture(autouse=True)
def notices(monkeypatch: pytest.MonkeyPatch) -> train_context.Notices:
    fresh = train_context.Notices()
    monkeypatch.setattr(train_context, "NOTICES", fresh)
    return fresh


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, notices: train_context.Notices) -> PreemptionContext:
    """A rank whose context Ray's worker has not marked yet."""
    notices.are_watched = True
    preemption = PreemptionContext()
    found: Any = SimpleNamespace(preemption_context=preemption)
    monkeypatch.setattr(ray_context, "_train_context", found)
    return preemption


def test_outside_of_a_job_there_is_one_attempt_and_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(e.ATTEMPT, raising=False)
    assert (attempt(), end_notice()) == (1, None)


def test_a_rank_knows_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(e.ATTEMPT, "3")
    assert attempt() == 3


def test_a_rank_knows_the_id_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_ID, "digits-1c6f0c8e")
    assert run_id() == "digits-1c6f0c8e"


@pytest.mark.parametrize("given", ["", None])
def test_outside_of_a_job_the_id_is_the_processs_own(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_ID, raising=False)
    if given is not None:
        monkeypatch.setenv(RUN_ID, given)
    assert len(run_id()) == 8 and run_id() == run_id()


def test_a_rank_reads_the_notice_that_has_reached_it(rank: PreemptionContext, notices: train_context.Notices) -> None:
    assert end_notice() is None and not notices.was_read
    rank.preemption_info = PreemptionInfo(deadline_ms=1_500, preempted_node_to_ranks={"b": [3, 2], "a": [0]})
    assert end_notice() == EndNotice(deadline=1.5, ranks=(0, 2, 3))
    assert notices.was_read, "a function that returns now has stopped early"


@pytest.mark.parametrize("unknown", [None, 0])
def test_a_notice_may_have_no_deadline(rank: PreemptionContext, unknown: int | None) -> None:
    rank.preemption_info = PreemptionInfo(deadline_ms=unknown, preempted_node_to_ranks={"a": [1]})
    assert end_notice() == EndNotice(deadline=None, ranks=(1,))
