"""What a reason means, and what to do about it: the table of `railhead why`, which is causes.toml."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from railhead.contract.failure import FailureClass

RETRY = "run `railhead retry {name}`, which starts from {start}"
# Its code cannot change: spec.source is immutable.
WHILE_UNFINISHED = (
    "delete the job and submit it with the new code; until then Railhead runs it again while its limits allow"
)
GO_ON = "Railhead continues by itself"
WHILE_SUSPENDED = "run `railhead suspend {name} --wait`, then `railhead resume {name} --set {assignment}`"
BY_RETRY = "run `railhead retry {name} --set {assignment}`"


@dataclass(frozen=True)
class Cause:
    """What a reason means.

    Attributes:
        remedy: a sentence, in which {name} is the job, {change} the command that changes the job, {retry} how it runs
            again with other code, and {go_on} how it runs again as it is.
        assignment: the field that {change} sets, and its value, such as image=IMAGE.
        doc: the section of the documentation that names the reason, such as how-to/see-why.md#title.
    """

    sentence: str
    remedy: str
    assignment: str = ""
    doc: str = "how-to/see-why.md"

    def write_remedy(self, name: str, *, is_finished: bool, has_checkpoint: bool) -> str:
        """Returns the remedy for the job of this name; a finished job is changed by a retry."""
        change = WHILE_SUSPENDED
        retry = WHILE_UNFINISHED
        go_on = GO_ON
        if is_finished:
            change = BY_RETRY
            retry = RETRY
            go_on = RETRY
        start = "scratch, since the job has no checkpoint"
        if has_checkpoint:
            start = "the last checkpoint"
        text = self.remedy.format(
            name=name,
            change=change.format(name=name, assignment=self.assignment),
            retry=retry.format(name=name, start=start),
            go_on=go_on.format(name=name, start=start),
        )
        return text[0].upper() + text[1:]


@functools.cache
def read_causes() -> Mapping[str, dict[str, Cause]]:
    """Returns the causes by table and reason."""
    text = resources.files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    docs = tables.pop("docs")
    return {table: dict(_read(rows, docs[table])) for table, rows in tables.items()}


def _read(rows: Mapping[str, Any], doc: str) -> Iterator[tuple[str, Cause]]:
    for reason, row in rows.items():
        cause = Cause(row["cause"], row["remedy"], row.get("set", ""), row.get("doc", doc))
        yield from ((each, cause) for each in (reason, *row.get("also", ())))


def choose_cause(reason: str, class_: FailureClass | None = None) -> Cause:
    """Returns the cause of the reason, else that of the failure class, else one that points to the message."""
    causes = read_causes()
    for table in (("failures",) if class_ else ()) + ("pods", "queues", "states", "found", "slow", "variants"):
        if reason in causes[table]:
            return causes[table][reason]
    if class_ is not None:
        meaning = class_.policy.meaning
        sentence = f"{meaning[0].upper()}{meaning[1:]}."
        by_meaning = Cause(sentence, "Follow the message above.", doc="concepts/failures.md#lost-attempts")
        return causes["classes"].get(class_.value, by_meaning)
    return Cause(f"The reason is {reason or 'not given'}.", "Follow the message above.")
