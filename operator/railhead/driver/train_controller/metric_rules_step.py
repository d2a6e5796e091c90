"""Carries out spec.metricPolicy in Ray Train's controller: a warning for the driver, or an error of the worker group.

The failure policy handles that error like any other one: it restarts the group in place, or the attempt ends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Dict, Optional, Tuple

from railhead.contract.failure import RESTART
from railhead.contract.metric_rule import METRIC_MISSING, METRIC_NOT_FINITE, METRIC_RULE, WARN, MetricRule
from railhead.contract.report import RunWarning
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import FromDriver
from railhead.driver.messages.attempt_errors import TrainingError
from railhead.driver.messages.log import log, never_raises
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.messages.redaction import redact
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import GroupStatus, Metrics, TrainingReport, WorkerGroup
from railhead.driver.train_controller.metric_rules import Fired, MetricRules
from railhead.driver.train_controller.worker_group import Group

# A controller that was busy or suspended for longer saw no reports meanwhile.
LONGEST_LOOK_SECONDS = 30.0
STEPS_SECONDS = 5.0  # between two looks at the heartbeat


class MetricRulesStep(ControllerStep):
    """Looks at each report and each poll. The rules are those that the operator's last answer had."""

    def __init__(self, group: Group, mailbox: Mailbox) -> None:
        self._group = group
        self._mailbox = mailbox
        self._rules = MetricRules()
        self._now = 0.0
        self._looked_at = time.monotonic()
        self._steps_at = 0.0
        self._reports = 0  # since the newest checkpoint
        self._restarts: Dict[MetricRule, Tuple[int, int]] = {}  # with the commits and reports at the last one
        self._warning: Optional[RunWarning] = None

    @never_raises("begin to watch the metrics")
    def after_group_start(self, worker_group: WorkerGroup) -> None:
        self._reports = 0
        now = self._look()
        self._rules.begin_again(now=now)
        self._rules.set_rules(self._mailbox.driver.read().answer.metric_rules, now=now)
        self._warn(None)

    @never_raises("watch the metrics")
    def after_report(self, report: TrainingReport, metrics: Metrics) -> None:
        is_commit = report.checkpoint is not None
        self._reports = 0 if is_commit else self._reports + 1
        now = self._look()
        self._rules.note_report(metrics, is_commit=is_commit, now=now)
        # There may be no later poll.
        self._warn(self._find_warning(self._rules.list_fired(now=now), now))

    @never_raises("apply spec.metricPolicy")
    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        now = self._look()
        driver = self._mailbox.driver.read()
        self._rules.set_rules(driver.answer.metric_rules, now=now)
        self._note_steps(now)
        fired = self._rules.list_fired(now=now)
        self._warn(self._find_warning(fired, now))
        self._act(fired, status, driver)

    def _look(self) -> float:
        """Returns the seconds in which the controller has polled its group."""
        before, self._looked_at = self._looked_at, time.monotonic()
        self._now += min(self._looked_at - before, LONGEST_LOOK_SECONDS)
        return self._now

    def _note_steps(self, now: float) -> None:
        if not self._rules.wants_steps or now - self._steps_at < STEPS_SECONDS:
            return
        self._steps_at = now
        beat = self._mailbox.controller.read().heartbeat
        if beat is not None:
            self._rules.note_steps(beat.most if beat.steps.step is None else beat.steps.step, now=now)

    def _find_warning(self, fired: Sequence[Fired], now: float) -> Optional[RunWarning]:
        message = next((each.message for each in fired if each.rule.action == WARN), "")
        if message:
            return RunWarning(METRIC_RULE, redact(message))
        not_finite = self._rules.find_not_finite()
        if not_finite:
            return RunWarning(METRIC_NOT_FINITE, redact(not_finite))
        missing = self._rules.find_missing(now=now)
        if missing:
            return RunWarning(METRIC_MISSING, redact(missing))
        return None

    def _warn(self, warning: Optional[RunWarning]) -> None:
        if warning == self._warning:
            return
        self._warning = warning
        if warning is not None:
            log(warning.message)
        self._mailbox.controller.change(partial(replace, rule_warning=warning))

    def _act(self, fired: Sequence[Fired], status: GroupStatus, driver: FromDriver) -> None:
        """Makes a rule an error, but not while the run ends: what is left of it is for the last checkpoint."""
        first = next((each for each in fired if each.rule.action != WARN), None)
        statuses = status.worker_statuses
        if first is None or driver.end is not None or any(each.error for each in statuses.values()):
            return
        kind = RankErrorKind.RULED_OUT
        message = first.message
        if first.rule.action == RESTART:
            place = (self._group.commits, self._reports)
            before = self._restarts.get(first.rule)
            if before is None or place > before:
                kind = RankErrorKind.RULED_AGAIN
                self._restarts[first.rule] = place
            else:
                message += ": the worker group has restarted for it before this step was passed, so the job fails"
        # Ray knows errors of ranks only. Of this kind the policy takes the rank in the error, -1, and not rank 0.
        statuses[0].error = TrainingError(kind, -1, message)
