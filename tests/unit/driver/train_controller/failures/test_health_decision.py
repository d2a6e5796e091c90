"""What the health checks of a later Ray decide, by a stand-in for its published names: none is Ray's own class.

tests/ray/test_contract.py looks at the real ones as soon as a Ray has them, and this stand-in is skipped then.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from ray.train.v2.api.exceptions import WorkerGroupError

from railhead.contract.answer import Answer
from railhead.contract.failure import FailureClass
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.ray.nodes import LostNode
from railhead.driver.train_controller.failures import failure_policy
from railhead.driver.train_controller.failures.failure_policy import RetryDecider
from railhead.driver.train_controller.failures.health_decision import translate_health_decision
from railhead.planning.facts.avoided_nodes import SURE_REASONS
from tests.unit.driver.mailboxes import tell
from tests.unit.driver.train_controller.failures.test_failure_policy import WorkerGroup, join

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray.train.health") is not None, reason="this Ray has the real classes"
)


class Cause(Enum):
    """A stand-in; drafts of Ray's had it."""

    HARDWARE = "hardware"
    APPLICATION = "application"
    NO_PROGRESS = "no-progress"


@dataclass
class Reattempt:
    """A stand-in."""

    reason: str = ""


@dataclass
class Evict:
    """A stand-in."""

    reason: str = ""
    target_nodes: list[str] = field(default_factory=list)
    cause: Cause | None = None


class HealthDecisionError(WorkerGroupError):  # type: ignore[misc] # Ray has no types
    """A stand-in."""

    def __init__(self, error_message: str, decision: Any = None) -> None:
        super().__init__(error_message, worker_failures={})
        self.decision = decision


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [{"NodeID": f"node-{name}", "NodeManagerHostname": f"w-{name}"} for name in ("ab", "cd", "ef")]
    monkeypatch.setattr("ray.nodes", lambda: found)


def decide(
    folder: Path, monkeypatch: pytest.MonkeyPatch, decisions: Sequence[Any]
) -> tuple[list[bool], Mailbox, list[str]]:
    """Returns whether the group restarts after each, the mailbox, and the pods that Ray takes for dead."""
    given_up: list[LostNode] = []
    monkeypatch.setattr(failure_policy, "mark_dead_in_ray", given_up.extend)
    mailbox = Mailbox(folder)
    tell(mailbox.driver, answer=Answer(restarts_in_place=1))
    decider = RetryDecider(join(WorkerGroup(["ab", "cd"])), mailbox, max_failures=None)
    retries = [decider.decide(HealthDecisionError("The health checks decided.", each)) for each in decisions]
    return retries, mailbox, [each.host for each in given_up]


def test_the_pod_of_an_evicted_node_is_replaced_and_the_group_restarts_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries, mailbox, given_up = decide(tmp_path, monkeypatch, [Evict("Xid 79", ["node-cd"], Cause.HARDWARE)])
    seen = mailbox.controller.read()
    assert retries == [True] and seen.failure is None
    assert seen.lost_pods == ("w-cd",) and given_up == ["w-cd"]
    restart = seen.restart
    assert restart is not None and (restart.cause, restart.reason) == ("Hardware", "NodeEvicted")
    assert restart.suspect_pod == "w-cd" and "Xid 79" in restart.message and restart.charged == 0
    assert restart.reason in SURE_REASONS  # the operator keeps the job from its node


def test_a_node_without_ranks_may_be_evicted_as_before_a_group_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries, mailbox, _ = decide(tmp_path, monkeypatch, [Evict("preflight", ["node-ef"])])
    assert retries == [True] and mailbox.controller.read().lost_pods == ("w-ef",)


def test_all_evicted_nodes_get_new_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, mailbox, given_up = decide(tmp_path, monkeypatch, [Evict("two", ["node-ab", "node-cd", "unknown"])])
    assert mailbox.controller.read().lost_pods == ("w-ab", "w-cd") and given_up == ["w-ab", "w-cd"]


@pytest.mark.parametrize("cause", [Cause.APPLICATION, Cause.NO_PROGRESS])
def test_an_eviction_for_another_cause_is_no_evidence_against_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Cause
) -> None:
    retries, mailbox, _ = decide(tmp_path, monkeypatch, [Evict("slow", ["node-cd"], cause)])
    restart = mailbox.controller.read().restart
    assert retries == [True] and mailbox.controller.read().lost_pods == ("w-cd",)
    assert restart is not None and (restart.cause, restart.suspect_pod) == ("Infrastructure", "")


def test_a_reattempt_spends_nothing_of_the_applications_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    retries, mailbox, given_up = decide(tmp_path, monkeypatch, [Reattempt("no heartbeat")] * 3)
    restart = mailbox.controller.read().restart
    assert retries == [True] * 3 and not given_up and not mailbox.controller.read().lost_pods
    assert restart is not None and (restart.number, restart.charged) == (3, 0)
    assert (restart.cause, restart.reason) == ("Infrastructure", "HealthReattempt")
    assert "no heartbeat" in restart.message


def test_reattempts_without_a_checkpoint_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    retries, mailbox, _ = decide(tmp_path, monkeypatch, [Reattempt("again")] * 11)
    assert retries == [True] * 10 + [False]
    failure = mailbox.controller.read().failure
    assert failure is not None and failure.class_ is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize("error", [HealthDecisionError("none"), WorkerGroupError("x", {}), ValueError("x")])
def test_any_other_error_is_none_of_it(error: Exception) -> None:
    assert translate_health_decision(error) is None


def test_an_eviction_of_unknown_nodes_restarts_the_group() -> None:
    facts = translate_health_decision(HealthDecisionError("x", Evict("gone", ["unknown"])))
    assert facts is not None and facts.refusal is not None and facts.refusal.reason == "HealthReattempt"
