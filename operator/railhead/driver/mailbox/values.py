"""Defines what the driver, Ray Train's controller and the user's script tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Optional

from railhead.contract.answer import Answer
from railhead.contract.failure import RESTART, Failure, find_rule
from railhead.contract.report import RestartInPlace, RunWarning
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress


@dataclass(frozen=True)
class Value:
    """What a process tells; frozen, and JSON by its fields' types."""


@dataclass(frozen=True)
class FromController(Value):
    """What Ray Train's controller tells of one fit().

    Attributes:
        failure: what ended this fit(), once it has failed.
        has_returned: the function returned on all ranks of the last group.
        restart: the last one of this attempt, also of an earlier fit().
        restarts: how many there were in this attempt, by failure class.
        lost_pods: of the last failure; earlier ones are replaced by now, or Kubernetes finds them.
        warning: of something that passes; else that of the progress counts.
        rule_warning: of spec.metricPolicy, for the current group.
        heartbeat: of the current group, None before its first.
        hangs_taken: number of the last of the driver's hangs that it has seen.
        tracker_url: where a tracker shows the run, or empty.
        validations: which Ray Train waits for after training, as a part of a sentence; empty = for none.
    """

    progress: Progress = field(default_factory=Progress)
    failure: Optional[Failure] = None
    has_returned: bool = False
    restart: Optional[RestartInPlace] = None
    restarts: dict[str, int] = field(default_factory=dict)
    lost_pods: tuple[str, ...] = ()
    warning: Optional[RunWarning] = None
    rule_warning: Optional[RunWarning] = None
    heartbeat: Optional[Heartbeat] = None
    hangs_taken: int = 0
    tracker_url: str = ""
    validations: str = ""

    def with_restart(self, restart: RestartInPlace) -> FromController:
        """Returns the value after one more restart in place."""
        restarts = {**self.restarts, restart.cause: self.restarts.get(restart.cause, 0) + 1}
        return replace(self, restart=restart, restarts=restarts)


@dataclass(frozen=True)
class Hang:
    """A hang as the driver has found it.

    Attributes:
        number: from 1, in this attempt.
        reason: of the failure that it becomes, such as NoSteps.
        rank: the one that is elsewhere than all others, which wait for it; -1 without such a one.
    """

    number: int
    message: str
    reason: str
    rank: int = -1


@dataclass(frozen=True)
class FromDriver(Value):
    """What the driver tells the controller and the script.

    Attributes:
        answer: the operator's last one to a report, without `next_report_seconds`.
        end: after SIGTERM the run ends by then, in seconds of the epoch.
        hang: the last one; the controller takes it at its next poll of the workers.
        read_fits: the output of the fit() of this number has been read to the end.
    """

    answer: Answer = field(default_factory=Answer)
    end: Optional[float] = None
    hang: Optional[Hang] = None
    read_fits: int = 0

    def count_allowed_restarts(self, failure: Failure) -> Optional[int]:
        """Returns how many restarts in place the operator allows; None until it has answered a report.

        They are 0 after a failure that ends the attempt by a rule of the job's.
        """
        rules = self.answer.failure_rules
        number = find_rule(rules, failure.class_.value, failure.reason, failure.process_exit_code)
        if number is not None and rules[number].action != RESTART:
            return 0
        return self.answer.restarts_in_place


@dataclass(frozen=True)
class Fit:
    """One call of fit() in the user's script, numbered from 1; one that has ended has succeeded, or has a failure.

    Number 0 is the script before its first fit(), if it failed in Railhead's own hooks.
    """

    number: int
    has_ended: bool = False
    failure: Optional[Failure] = None


@dataclass(frozen=True)
class FromScript(Value):
    """What the process of the user's script tells: its last fit(), and a warning of something that passes."""

    fit: Optional[Fit] = None
    warning: Optional[RunWarning] = None


@dataclass(frozen=True)
class Stack:
    """Where a rank is: a line of the user's code and the stacks of its threads; both empty if it does not respond."""

    rank: int
    pod: str = ""
    place: str = ""
    text: str = ""
