"""The table of causes has every reason that users meet, with sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.cli.main import build_parser
from railhead.client.cause import Cause
from railhead.client.causes import CLASSES, FAILURES, FOUND, PODS, STATES, find_cause
from railhead.client.queue_causes import QUEUES
from railhead.client.slowness import SLOW
from railhead.contract.failure import FailureClass

EVENTS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "events.md"
TABLES = {"pods": PODS, "queues": QUEUES, "states": STATES, "found": FOUND, "failures": FAILURES, "slow": SLOW}
ROWS = [(f"{table}-{reason}", cause) for table, rows in TABLES.items() for reason, cause in rows.items()]
ROWS += [(f"class-{class_}", cause) for class_, cause in CLASSES.items()]
# Events about something that happened, which is no state of a job.
HAPPENED = {"RestartedInPlace", "WorkerReplaced", "NodeAvoided", "PodsLeftBehind", "PodStuckTerminating", "Failed"}


def warnings() -> list[str]:
    """The reasons of all warnings that the operator sends."""
    rows = [line.split("|") for line in EVENTS.read_text().splitlines() if line.startswith("| ")]
    return [reason for row in rows if "Warning" in row[2] for reason in re.findall(r"[A-Z][A-Za-z]+", row[1])]


@pytest.mark.parametrize(("row", "cause"), ROWS, ids=[name for name, _ in ROWS])
def test_cause_and_remedy_are_sentences(row: str, cause: Cause) -> None:
    for text in (cause.sentence, cause.remedy):
        assert re.match(r"[A-Z/]", text), text
        assert text.endswith("."), text
        assert "{name}" not in text.format(name="digits"), text


@pytest.mark.parametrize(("row", "cause"), ROWS, ids=[name for name, _ in ROWS])
def test_every_command_of_a_remedy_is_a_command(row: str, cause: Cause) -> None:
    for command in re.findall(r"`railhead ([^`]*)`", cause.remedy.format(name="digits")):
        arguments = command.split()
        if arguments[-1] == "--set":
            arguments.append("image=IMAGE")
        build_parser().parse_args(arguments)


def test_the_table_has_at_least_forty_causes() -> None:
    assert len({cause for _, cause in ROWS}) >= 40


@pytest.mark.parametrize("reason", warnings())
def test_every_warning_of_the_operator_that_lasts_has_a_cause(reason: str) -> None:
    assert reason in HAPPENED or reason in PODS or reason in STATES or reason in FOUND


@pytest.mark.parametrize("class_", FailureClass)
def test_a_failure_of_an_unknown_reason_has_the_cause_of_its_class(class_: FailureClass) -> None:
    assert find_cause("SomethingNew", class_) is CLASSES[class_]


def test_a_reason_of_a_newer_operator_points_to_its_message() -> None:
    assert find_cause("SomethingNew").sentence == "The reason is SomethingNew."
    assert find_cause("").sentence == "The reason is not given."


def test_a_failure_is_looked_up_among_failures_first() -> None:
    assert find_cause("SecretNotFound", FailureClass.INFRASTRUCTURE) is FAILURES["SecretNotFound"]
    assert find_cause("Evicted", FailureClass.APPLICATION) is PODS["Evicted"]
