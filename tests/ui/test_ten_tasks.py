"""Ten questions of a person, answered by a new user in the browser: each counts its clicks, and finds its answer.

test_page.py asks them, in the browser that it has open. `python -m tests.ui.test_ten_tasks` does all and prints the
table of docs/how-to/page.md, with the seconds of each.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from tools.chromium import resolve_chromium

from tests.ui.conftest import WIDE, serve


@dataclass
class Person:
    """Somebody who has the page of all jobs before them.

    Attributes:
        clicks: so far; a field that is typed into counts as one.
    """

    page: Page
    clicks: int = 0

    def click(self, name: str, role: str = "link") -> None:
        """Clicks what has this name."""
        self.clicks += 1
        self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]

    def fill(self, field: str, text: str) -> None:
        """Types into a field."""
        self.clicks += 1
        self.page.get_by_label(field, exact=True).fill(text)

    def see(self, *texts: str) -> None:
        """Finds what answers the question."""
        for text in texts:
            expect(self.page.get_by_text(re.compile(text)).first).to_be_visible()

    def see_row(self, row: str, *texts: str) -> None:
        """Finds it in a row of a table."""
        cells = self.page.locator(f'.ag-row[row-id="{row}"]')
        expect(cells.first).to_be_visible()
        found = " ".join(cells.all_inner_texts())
        for text in texts:
            assert re.search(text, found), found


@dataclass(frozen=True)
class Task:
    """One question. `way`: what the person clicks, for the table."""

    question: str
    way: str
    clicks: int
    do: Callable[[Person], None] = field(repr=False)


def see_why_it_is_slow(person: Person) -> None:
    person.click("digits")
    person.see("SlowRank", "rank 5 .* at 0.68", "What to do:")


def compare_four_runs(person: Person) -> None:
    person.click("Past runs")
    person.see_row("wide", "loss 0.12")
    person.see_row("living", "loss 0.42")


def see_where_the_night_went(person: Person) -> None:
    person.click("digits")
    person.see("Where the time went", "Restoring after a loss", "Gap for 2m: Hardware GPUFailed on gpu-7")


def read_what_rank_3_printed(person: Person) -> None:
    person.click("digits")
    person.click("Logs", "tab")
    person.click("One rank", "button")
    person.fill("Rank", "3")
    person.clicks += 1
    person.page.get_by_label("Attempt").click()
    person.click("1, archived", "option")
    person.see("uncorrectable ECC error")


def see_whether_it_hangs(person: Person) -> None:
    person.click("hung")
    person.see("HangSuspected|NoSteps", "rank 3 is suspected")


def see_what_it_waits_for(person: Person) -> None:
    person.see_row("team-a/queued", "WaitingForQuota")
    person.click("queued")
    person.see("16 of 16 GPUs are used")


def choose_a_checkpoint(person: Person) -> None:
    person.click("digits")
    person.click("Checkpoints", "tab")
    person.see_row("checkpoint_2", "newest")
    person.see_row("checkpoint_1", "best")


def see_what_it_cost(person: Person) -> None:
    person.click("digits")
    person.see(r"31\.96, of which 4\.41 were lost")


def find_the_bad_node(person: Person) -> None:
    person.click("digits")
    person.see("GPUFailed on gpu-7", "NodeDrained on spot-3")


def read_the_spec_of_a_deleted_job(person: Person) -> None:
    person.click("Past runs")
    person.click("broken")
    person.click("Spec", "tab")
    person.see("train_func: train:main", "image: registry.example.com/train:1")


TASKS = (
    Task("Why is my job slow?", "the job", 1, see_why_it_is_slow),
    Task("Which of these four runs is best?", "Past runs; the column Best", 1, compare_four_runs),
    Task("Where did the night go?", "the job", 1, see_where_the_night_went),
    Task(
        "What did rank 3 print before it died?", "the job, Logs, One rank, 3, Attempt, 1", 6, read_what_rank_3_printed
    ),
    Task("Is it still training, or does it hang?", "the job", 1, see_whether_it_hangs),
    Task("What does it wait for in the queue?", "the job; its row says the reason", 1, see_what_it_waits_for),
    Task("Which checkpoint should I take?", "the job, Checkpoints", 2, choose_a_checkpoint),
    Task("What did it cost?", "the job; GPU hours", 1, see_what_it_cost),
    Task("Which node is bad?", "the job; the causes of gaps", 1, find_the_bad_node),
    Task("What did this deleted job's spec say?", "Past runs, the run, Spec", 3, read_the_spec_of_a_deleted_job),
)


def test_the_page_of_the_documentation_has_these_tasks() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "page.md").read_text()
    rows = re.findall(r"^\| (.*\?) \| (.*) \| (\d+) \| [\d.]+ \|$", text, re.M)
    assert rows == [(task.question, task.way, str(task.clicks)) for task in TASKS]


def main() -> None:
    """Prints the table. Each task begins at the page of all jobs, which has been loaded."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serve("five", Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        program = resolve_chromium(print)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        print("| Question | Where | Clicks | Seconds |\n|---|---|---|---|")
        for task in TASKS:
            page = browser.new_context(viewport=WIDE).new_page()
            page.goto(server.address)
            expect(page.locator(".ag-center-cols-container .ag-row").first).to_be_visible(timeout=60_000)
            began = time.monotonic()
            task.do(Person(page))
            print(f"| {task.question} | {task.way} | {task.clicks} | {time.monotonic() - began:.1f} |")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
