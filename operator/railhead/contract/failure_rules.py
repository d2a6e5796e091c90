"""Rules of spec.failurePolicy. The operator applies them to a lost attempt, the driver before a restart in place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Iterable, Mapping, Optional, Sequence, Tuple

FAIL, RESTART, RESTART_AND_IGNORE = "Fail", "Restart", "RestartAndIgnore"


@dataclass(frozen=True)
class FailureRule:
    """One rule, with one of `classes`, `reasons` and `exit_codes`; `is_not_in`: any known exit code but those."""

    action: str
    classes: Tuple[str, ...] = ()
    reasons: Tuple[str, ...] = ()
    exit_codes: Tuple[int, ...] = ()
    is_not_in: bool = False

    def matches(self, class_: str, reason: str, exit_code: Optional[int]) -> bool:
        if self.exit_codes:
            return exit_code is not None and (exit_code in self.exit_codes) != self.is_not_in
        return class_ in self.classes or reason in self.reasons


def find_rule(rules: Sequence[FailureRule], class_: str, reason: str, exit_code: Optional[int]) -> Optional[int]:
    """The index of the first rule that matches."""
    return next((number for number, rule in enumerate(rules) if rule.matches(class_, reason, exit_code)), None)


def read_rules(values: Iterable[Mapping[str, Any]]) -> Tuple[FailureRule, ...]:
    """From JSON; ignores what a newer operator adds."""
    names = {each.name for each in fields(FailureRule)}
    return tuple(FailureRule(**{name: value[name] for name in names & value.keys()}) for value in values)
