"""Which rule of spec.failurePolicy matches a failure."""

from __future__ import annotations

from typing import get_args

from railhead.api.failure_policy import Action, FailureRule, OnExitCodes, RuledClass
from railhead.api.spec import TrainJobSpec
from railhead.api.status import FailureStatus

FAIL: Action = "Fail"
RESTART: Action = "Restart"
RESTART_AND_IGNORE: Action = "RestartAndIgnore"


def apply_rules(spec: TrainJobSpec, failure: FailureStatus) -> tuple[FailureStatus, str]:
    """The failure with the action of the first rule that matches, and the rule's path; empty without one."""
    found = spec.failure_policy.rules if spec.failure_policy and failure.class_ in get_args(RuledClass) else []
    for number, rule in enumerate(found):
        if _is_match(rule, failure):
            return failure.model_copy(update={"action": rule.action}), f"failurePolicy.rules[{number}]"
    return failure, ""


def _is_match(rule: FailureRule, failure: FailureStatus) -> bool:
    if rule.on_exit_codes is not None:
        return _is_code_of(rule.on_exit_codes, failure.process_exit_code)
    return failure.reason in (rule.on_reason or ()) or failure.class_ in (rule.on_class or ())


def _is_code_of(codes: OnExitCodes, code: int | None) -> bool:
    return code is not None and (code in codes.values) == (codes.operator == "In")
