"""The table of events in docs/reference/reasons.md lists exactly the events that the code sends."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from railhead.contract.metric_rule import METRIC_MISSING, METRIC_NOT_FINITE, METRIC_RULE
from railhead.contract.report import (
    CHECKPOINT_NAME_REPEATED,
    END_NOT_ANNOUNCED,
    LOSSES,
    NO_STEPS,
    RAY_NOT_TESTED,
    STORAGE_TROUBLES,
)
from railhead.controller.observe import STUCK
from railhead.planning.decisions import continued_run, next_attempt, suspend
from railhead.planning.facts import reasons

PROJECT = Path(__file__).resolve().parents[2]
CAMEL_CASE = re.compile(r"[A-Z][A-Za-z]+")
NAMED = {
    "SUSPENDED": suspend.SUSPENDED,
    "RESTORED": continued_run.RESTORED,
    "NODE_REFUSED_POD": reasons.NODE_REFUSED_POD,
    "POD_NOT_STARTED": reasons.POD_NOT_STARTED,
    "WAITING_FOR_PODS": next_attempt.WAITING_FOR_PODS,
    "STATUS_DENIED": reasons.STATUS_DENIED,
    "REPORTS_MISSING": reasons.REPORTS_MISSING,
}
# Reasons that the planner passes on from elsewhere.
PASSED_ON = {
    *reasons.THAT_PASS,
    *STUCK,
    *LOSSES,
    *STORAGE_TROUBLES,
    *(next_attempt.NOT_FOUND, next_attempt.RUNS, next_attempt.NOTHING),
    *(continued_run.RUN_IN_USE, continued_run.OF_ANOTHER_JOB, continued_run.WITHOUT_STATUS),
    *("RunNameDiffers", "StoragePathDiffers", CHECKPOINT_NAME_REPEATED, END_NOT_ANNOUNCED, RAY_NOT_TESTED),
    *(NO_STEPS, METRIC_RULE, METRIC_MISSING, METRIC_NOT_FINITE),
}
VARIABLES = {"reason", "warning.reason", "problem.reason"}


def sent() -> Iterator[str]:
    """The expression for the reason of each event that the code creates."""
    for file in (PROJECT / "operator" / "railhead").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "Event":
                yield from _reasons(node.args[1])
            elif node.func.id == "begin_next_attempt":
                yield from _reasons(next(keyword.value for keyword in node.keywords if keyword.arg == "reason"))


def _reasons(node: ast.expr) -> list[str]:
    """Both of a choice between two."""
    if isinstance(node, ast.IfExp):
        return [*_reasons(node.body), *_reasons(node.orelse)]
    return [str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)]


def documented() -> list[str]:
    table = (PROJECT / "docs" / "reference" / "reasons.md").read_text().partition("## Events")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][1:]
    return [reason for row in rows for reason in CAMEL_CASE.findall(row)]


def test_every_event_is_documented_and_every_documented_event_is_sent() -> None:
    reasons_sent = set(sent())
    fixed = {NAMED.get(reason, reason) for reason in reasons_sent - VARIABLES}
    assert reasons_sent >= VARIABLES, "passed-on reasons come from the expected variables"
    assert set(documented()) == fixed | PASSED_ON
    assert len(documented()) == len(set(documented()))
    assert all(CAMEL_CASE.fullmatch(reason) for reason in fixed | PASSED_ON)
