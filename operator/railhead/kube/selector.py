"""Label selectors as kubectl writes them: checked at the operator's start, and applied to what its own writes return.

The API server applies the same text to lists and watches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"
_VALUE = rf"(?:{_NAME})?"
_PRESENCE = re.compile(rf"(!?)\s*({_KEY})")
_EQUALITY = re.compile(rf"({_KEY})\s*(==?|!=)\s*({_VALUE})")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(\s*({_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)")
_COMMA = re.compile(r",(?![^()]*\))")  # not those between parentheses


class BadSelector(ValueError):
    """The text is not a label selector."""


@dataclass(frozen=True)
class LabelRequirement:
    """One term of a selector.

    Attributes:
        values: None = any value.
        is_negated: selects what does not match, and so also objects without the label.
    """

    key: str
    values: frozenset[str] | None
    is_negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        is_met = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return is_met != self.is_negated


@dataclass(frozen=True)
class LabelSelector:
    """Selects objects that meet all requirements.

    Attributes:
        text: for the API server and for messages.
    """

    text: str = ""
    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = LabelSelector()


def parse_selector(text: str) -> LabelSelector:
    """Parses `team=a,tier!=test,env in (x,y),!legacy`, for example. Raises BadSelector."""
    text = text.strip()
    return LabelSelector(text, tuple(_parse_terms(text)) if text else ())


def _parse_terms(text: str) -> Iterator[LabelRequirement]:
    for term in (part.strip() for part in _COMMA.split(text)):
        if found := _PRESENCE.fullmatch(term):
            yield LabelRequirement(found[2], None, is_negated=found[1] == "!")
        elif found := _EQUALITY.fullmatch(term):
            yield LabelRequirement(found[1], frozenset({found[3]}), is_negated=found[2] == "!=")
        elif found := _SET.fullmatch(term):
            values = frozenset(value.strip() for value in found[3].split(","))
            yield LabelRequirement(found[1], values, is_negated=found[2] == "notin")
        else:
            raise BadSelector(
                f"{term!r} is not a requirement on a label, such as team=a, team!=a, team in (a,b), !team"
            )
