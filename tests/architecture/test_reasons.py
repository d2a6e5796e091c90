"""reasons.md lists exactly the reasons of conditions that the code has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_events import CAMEL_CASE, PASSED_ON

from railhead.api import conditions as types
from railhead.client.explain.causes import read_causes
from railhead.planning.decisions.continued_run import RESTORED
from railhead.planning.decisions.next_attempt import WAITING_FOR_PODS
from railhead.planning.decisions.suspend import SUSPENDED, SUSPENDING
from railhead.planning.facts import reasons

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
MAKERS = {"make_condition", "set_not_running", "_stand"}
# Expressions whose values are in `PASSED_ON`, or are of a failure.
VARIABLES = {"reason", "warning.reason", "event.reason", "problem.reason", "why.reason"}
PHASES = {"Pending", "Starting"}  # of the expression `phase`
OTHERS = {
    *(
        SUSPENDED,
        SUSPENDING,
        RESTORED,
        WAITING_FOR_PODS,
        reasons.NODE_REFUSED_POD,
        reasons.POD_NOT_STARTED,
        "WorkerLost",
    ),
    *(reasons.REPORTS_MISSING, reasons.PARTIAL_START),
    *read_causes()["queues"],
    *("DeleteDenied", "ChangeDenied", "QueueLost", "ForeignPods", "CPULimitAdded"),
    *(f"Not{type_}" for type_ in types.ALWAYS_PRESENT),
}


def made() -> Iterator[str]:
    """The expression for the reason of each condition that the code makes."""
    for file in (PROJECT / "operator" / "railhead" / "planning").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                for keyword in node.keywords:
                    if keyword.arg == "reason":
                        value = keyword.value
                        yield str(value.value) if isinstance(value, ast.Constant) else ast.unparse(value)


def documented() -> list[str]:
    text = (DOCS / "reference" / "reasons.md").read_text().partition("## Events")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    return [reason for row in rows for reason in CAMEL_CASE.findall(row) if reason != "Reason"]


def test_every_reason_of_a_condition_is_documented_and_every_documented_reason_exists() -> None:
    fixed = {each for each in made() if CAMEL_CASE.fullmatch(each) and not each.isupper()}
    assert set(documented()) == fixed | PASSED_ON | PHASES | OTHERS
    assert len(documented()) == len(set(documented()))


def test_other_reasons_come_from_known_expressions() -> None:
    known = {*VARIABLES, "phase", "SUSPENDED", "SUSPENDING", "RESTORED", "WAITING_FOR_PODS", "f'Not{type_}'"}
    assert {each for each in made() if not CAMEL_CASE.fullmatch(each) or each.isupper()} <= known
