"""The table of causes has every reason that users meet, with sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.cli.parser import build_parser
from railhead.client.explain.causes import Cause, choose_cause, read_causes
from railhead.contract.failure import FailureClass

DOCS = Path(__file__).resolve().parents[4] / "docs"
REASONS = DOCS / "reference" / "reasons.md"
CAUSES = read_causes()
ROWS = [(f"{table}-{reason}", cause) for table, rows in CAUSES.items() for reason, cause in rows.items()]
# Events about something that happened, which is no state of a job.
HAPPENED = {"RestartedInPlace", "WorkerReplaced", "NodeAvoided", "PodsLeftBehind", "PodStuckTerminating", "Failed"}


def warnings() -> list[str]:
    """The reasons of all warnings that the operator sends."""
    events = REASONS.read_text().partition("## Events")[2]
    rows = [line.split("|") for line in events.splitlines() if line.startswith("| ")]
    return [reason for row in rows if "Warning" in row[2] for reason in re.findall(r"[A-Z][A-Za-z]+", row[1])]


def write_remedies(cause: Cause) -> list[str]:
    """The remedy for a job that may run, and for one that has finished, without a checkpoint and with one."""
    cases = [(False, False), (True, False), (True, True)]
    return [cause.write_remedy("digits", is_finished=done, has_checkpoint=has) for done, has in cases]


@pytest.mark.parametrize(("row", "cause"), ROWS, ids=[name for name, _ in ROWS])
def test_cause_and_remedy_are_sentences(row: str, cause: Cause) -> None:
    for text in (cause.sentence, *write_remedies(cause)):
        assert re.match(r"[A-Z/]", text), text
        assert text.endswith("."), text
        assert not re.search(r"\{(name|change|retry)\}|--set `", text), text


@pytest.mark.parametrize(("row", "cause"), ROWS, ids=[name for name, _ in ROWS])
def test_every_command_of_a_remedy_is_a_command(row: str, cause: Cause) -> None:
    for command in re.findall(r"`railhead ([^`]*)`", " ".join(write_remedies(cause))):
        arguments = command.split()
        if arguments[-1] == "--set":
            arguments.append("image=IMAGE")
        build_parser().parse_args(arguments)


def test_a_remedy_names_no_size_because_the_job_may_have_less_already() -> None:
    assert [row for row, cause in ROWS if re.search(r"=\d", cause.assignment)] == []


def test_the_table_has_at_least_forty_causes() -> None:
    assert len({cause for _, cause in ROWS}) >= 40


@pytest.mark.parametrize("reason", warnings())
def test_every_warning_of_the_operator_that_lasts_has_a_cause(reason: str) -> None:
    assert reason in HAPPENED or any(reason in CAUSES[table] for table in ("pods", "states", "found"))


@pytest.mark.parametrize("name", CAUSES["classes"])
def test_a_failure_of_an_unknown_reason_has_the_cause_of_its_class(name: str) -> None:
    assert choose_cause("SomethingNew", FailureClass(name)) is CAUSES["classes"][name]


def test_a_finished_job_is_changed_by_a_retry() -> None:
    cause = choose_cause("InvalidImageName")
    change = "`railhead suspend digits --wait`, then `railhead resume digits --set image=IMAGE`"
    retry = "Run `railhead retry digits --set image=IMAGE`."
    assert write_remedies(cause) == [f"Run {change}.", retry, retry]


def test_a_retry_starts_from_a_checkpoint_only_if_there_is_one() -> None:
    now, scratch, later = write_remedies(choose_cause("TrainFunctionRaised", FailureClass.APPLICATION))
    assert "retry" not in now and "Railhead runs it again while its limits allow" in now
    assert "`railhead retry digits`, which starts from scratch" in scratch
    assert "`railhead retry digits`, which starts from the last checkpoint" in later


def test_no_reason_is_in_two_tables_that_are_searched_together() -> None:
    """A table of TOML cannot have a key twice, but `also` can repeat one."""
    reasons = [each for table in ("pods", "queues", "states", "found", "slow", "variants") for each in CAUSES[table]]
    assert sorted(set(reasons)) == sorted(reasons)


def test_a_reason_of_a_newer_operator_points_to_its_message() -> None:
    assert choose_cause("SomethingNew").sentence == "The reason is SomethingNew."
    assert choose_cause("").sentence == "The reason is not given."


def test_a_failure_is_looked_up_among_failures_first() -> None:
    assert choose_cause("SecretNotFound", FailureClass.INFRASTRUCTURE) is CAUSES["failures"]["SecretNotFound"]
    assert choose_cause("Evicted", FailureClass.APPLICATION) is CAUSES["pods"]["Evicted"]


def read_section(doc: str) -> str:
    """Returns the text of a section of the documentation, up to the next title."""
    page, _, anchor = doc.partition("#")
    parts = re.split(r"^(?=#+ )", (DOCS / page).read_text(), flags=re.M)
    found = [part for part in parts if make_anchor(part.partition("\n")[0]) == anchor]
    assert len(found) == 1, doc
    return found[0]


def make_anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lstrip("# ").lower()).replace(" ", "-")


NAMED = [(table, reason, cause) for table, rows in CAUSES.items() for reason, cause in rows.items()]


@pytest.mark.parametrize(("table", "reason", "cause"), NAMED, ids=[f"{table}-{reason}" for table, reason, _ in NAMED])
def test_the_section_that_a_cause_links_to_names_its_reason(table: str, reason: str, cause: Cause) -> None:
    section = read_section(cause.doc)
    # A variant is no reason: it stands in place of a reason's own row.
    assert table == "variants" or re.search(rf"\b{reason}\b", section), cause.doc


@pytest.mark.parametrize("class_", FailureClass)
def test_an_unknown_reason_of_a_failure_links_to_its_class(class_: FailureClass) -> None:
    assert re.search(rf"\b{class_.value}\b", read_section(choose_cause("NeverSeen", class_).doc))
