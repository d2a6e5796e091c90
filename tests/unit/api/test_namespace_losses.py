"""The losses of a namespace's jobs are added up as the jobs change."""

from __future__ import annotations

from railhead.api.namespace_losses import NamespaceLosses
from railhead.contract.loss_rate import JobLosses


def test_each_namespace_has_the_sum_of_its_jobs_as_they_are_now() -> None:
    losses = NamespaceLosses()
    losses.add("team-a", JobLosses(1, 10))
    losses.add("team-a", JobLosses(2, 30))
    losses.add("team-b", JobLosses(7, 70))
    assert losses.sum_up("team-a") == JobLosses(3, 40)
    losses.add("team-a", JobLosses(1, 10), times=-1)
    assert losses.sum_up("team-a") == JobLosses(2, 30)
    assert losses.sum_up("unknown") == JobLosses()


def test_a_namespace_without_losses_takes_no_memory() -> None:
    losses = NamespaceLosses()
    losses.add("team-a", JobLosses())
    losses.add("team-b", JobLosses(1, 10))
    losses.add("team-b", JobLosses(1, 10), times=-1)
    assert not losses


def test_all_jobs_can_be_forgotten() -> None:
    losses = NamespaceLosses()
    losses.add("team-a", JobLosses(1, 10))
    losses.clear()
    assert losses.sum_up("team-a") == JobLosses()
