"""Which rule of spec.failurePolicy matches a failure."""

from __future__ import annotations

from typing import get_args

from railhead.api.failure_policy import FailureRule as RuleSpec
from railhead.api.failure_policy import RuledClass
from railhead.api.spec import TrainJobSpec
from railhead.api.status import FailureStatus
from railhead.contract.failure_rules import FailureRule, find_rule


def apply_rules(spec: TrainJobSpec, failure: FailureStatus) -> tuple[FailureStatus, str]:
    """The failure with the action of the first rule that matches, and the rule's path; empty without one."""
    rules = build_rules(spec) if failure.class_ in get_args(RuledClass) else ()
    number = find_rule(rules, failure.class_, failure.reason, failure.process_exit_code)
    if number is None:
        return failure, ""
    return failure.model_copy(update={"action": rules[number].action}), f"failurePolicy.rules[{number}]"


def build_rules(spec: TrainJobSpec) -> tuple[FailureRule, ...]:
    return tuple(_build(rule) for rule in spec.failure_policy.rules) if spec.failure_policy else ()


def _build(rule: RuleSpec) -> FailureRule:
    codes = rule.on_exit_codes
    return FailureRule(
        rule.action,
        classes=tuple(rule.on_class or ()),
        reasons=tuple(rule.on_reason or ()),
        exit_codes=tuple(codes.values) if codes else (),
        is_not_in=codes is not None and codes.operator == "NotIn",
    )
