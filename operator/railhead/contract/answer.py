"""What the operator answers to a report that it accepts: the parts of the spec that may change while training runs.

A field of the spec that the driver is to learn of without a new attempt is a field here. The operator fills it in
`controller/cluster_state.py`, and its consumer reads it: the driver's own process from `Publisher.answer`, Ray Train's
controller from the mailbox.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Optional, Tuple, Union

from railhead.contract.failure import FailureRule
from railhead.contract.json_values import load_value
from railhead.contract.loss_rate import NO_LOSSES, LossHistory
from railhead.contract.metric_rule import TYPES, MetricRule

RESTART_AT_HANG = "Restart"  # of spec.hangPolicy


@dataclass(frozen=True)
class Answer:
    """The current limits of an attempt. The defaults are those of a driver that has no answer yet.

    A new field needs a default: an older operator does not send it, and an older driver ignores it.

    Attributes:
        progress_deadline_seconds: spec.progressDeadlineSeconds.
        hang_policy: spec.hangPolicy; empty = not known.
        restarts_in_place: how many charged restarts in place the attempt may have in all; None = not known.
        failure_rules: of spec.failurePolicy.
        metric_rules: of spec.metricPolicy.
        losses: those of the job so far, as of the last change of its state, and of the other jobs in its namespace.
        next_report_seconds: after how long new metrics are of use; anything else but `Report.steps` is reported at
            once.
    """

    progress_deadline_seconds: Optional[float] = None
    hang_policy: str = ""
    restarts_in_place: Optional[int] = None
    failure_rules: Tuple[FailureRule, ...] = ()
    metric_rules: Tuple[MetricRule, ...] = ()
    losses: LossHistory = NO_LOSSES
    next_report_seconds: float = 0.0

    @staticmethod
    def from_json(text: Union[str, bytes]) -> Answer:
        """Drops rules of a type that only a newer operator knows. Raises ValueError if it is no answer."""
        try:
            answer: Answer = load_value(Answer, json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from error
        deadline = answer.progress_deadline_seconds
        restarts = answer.restarts_in_place
        if not isinstance(deadline, (int, float, type(None))) or not isinstance(restarts, (int, type(None))):
            raise ValueError("a limit of the answer is not a number")
        if not isinstance(answer.next_report_seconds, (int, float)):
            raise ValueError("next_report_seconds of the answer is not a number")
        others = answer.losses.others
        losses = (answer.losses.number, answer.losses.seconds, others.number, others.gpu_seconds)
        if not all(isinstance(each, (int, float)) for each in losses):
            raise ValueError("the losses of the answer are not numbers")
        if not isinstance(answer.hang_policy, str):
            raise ValueError("hang_policy of the answer is not a text")
        known = tuple(rule for rule in answer.metric_rules if rule.type in TYPES)
        return replace(answer, metric_rules=known)
