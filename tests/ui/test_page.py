"""The page in a real browser: each view of a running, a failed, a queued, a hung and a deleted job."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.ui.conftest import Server, Visiting
from tests.ui.scenes import HOSTILE, TRACEBACK, TRACKER_URL
from tests.ui.test_ten_tasks import (
    TASKS,
    Person,
    Task,
    read_what_rank_3_printed,
    see_what_it_cost,
    see_what_it_waits_for,
)

TABS = ("overview", "curves", "ranks", "checkpoints", "logs", "events", "spec")
CANVAS = ".nicegui-echart canvas"
# The other tests find the answers of the other tasks, though they do not count clicks.
ONLY_AS_TASKS = (read_what_rank_3_printed, see_what_it_waits_for, see_what_it_cost)


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=60_000)


def find_row(page: Page, name: str) -> str:
    expect(page.locator(f'.ag-row[row-id="team-a/{name}"]').first).to_be_visible()
    return " ".join(page.locator(f'.ag-row[row-id="team-a/{name}"]').all_inner_texts())


def count_shown(page: Page) -> int:
    return page.locator(".ag-center-cols-container .ag-row").count()


def test_all_jobs_are_listed_with_what_each_waits_for(five: Server, visit: Visiting) -> None:
    page = visit(five).page
    page.goto(five.address)
    expect(page).to_have_title("Jobs")
    assert "token" not in page.url
    digits = find_row(page, "digits")
    for text in ("Running", "42%", "3h20m", "86.2%", "8"):
        assert text in digits
    assert "TrainFunctionRaised" in find_row(page, "failed")
    assert "NoSteps" in find_row(page, "hung")
    assert "WaitingForQuota" in find_row(page, "queued")


def test_a_narrow_window_has_the_reason_why_a_job_does_not_train(five: Server, visit: Visiting) -> None:
    page = visit(five, is_narrow=True).open("/")
    assert "NoSteps" in find_row(page, "hung")
    assert "TrainFunctionRaised" in find_row(page, "failed")
    assert "3h20m" not in find_row(page, "hung")


def test_jobs_are_filtered_and_sorted_and_the_address_keeps_it(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/")
    find_row(page, "digits")
    page.keyboard.press("/")
    page.keyboard.type("NoSteps")
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"\?q=NoSteps$"))
    page.reload()
    find_row(page, "hung")
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)
    page.get_by_label("Filter").fill("")
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)
    find_row(page, "failed")
    page.get_by_role("button", name=re.compile("^Failed")).click()
    page.get_by_text("Progress", exact=True).click()
    expect(page).to_have_url(re.compile("sort=percent"))


def test_a_job_is_opened_with_the_keyboard(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/")
    find_row(page, "failed")
    page.locator('.ag-row[row-id="team-a/failed"] .ag-cell').first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs/team-a/failed$"))
    expect(page.get_by_text("TrainFunctionRaised").first).to_be_visible()


@pytest.mark.parametrize(
    ("name", "is_narrow"),
    [
        pytest.param("digits", False, id="digits-wide"),
        pytest.param("hung", True, id="hung-narrow"),
        # The same views of other jobs, whose texts tests/unit/client has.
        pytest.param("digits", True, id="digits-narrow", marks=pytest.mark.slow),
        pytest.param("hung", False, id="hung-wide", marks=pytest.mark.slow),
        pytest.param("failed", False, id="failed-wide", marks=pytest.mark.slow),
        pytest.param("failed", True, id="failed-narrow", marks=pytest.mark.slow),
        pytest.param("queued", False, id="queued-wide", marks=pytest.mark.slow),
        pytest.param("queued", True, id="queued-narrow", marks=pytest.mark.slow),
    ],
)
def test_each_view_of_each_job_fits_and_says_something(
    five: Server, visit: Visiting, name: str, is_narrow: bool
) -> None:
    page = visit(five, is_narrow=is_narrow, is_dark=is_narrow).open(f"/jobs/team-a/{name}")
    for tab in TABS:
        open_tab(page, tab)
        expect(page.locator(".q-tab-panel").first).to_contain_text(re.compile(r"\w{4}"))
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
        expect(page.get_by_role("link", name=re.compile("What is this")).first).to_be_visible()


def test_a_click_on_a_page_that_stood_still_is_not_lost(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits")
    expect(page.get_by_text("What to do:").first).to_be_visible()

    def stand_still(dialog: Dialog) -> None:
        time.sleep(7)  # a dialog stops the page's scripts, so that it answers no ping meanwhile, and costs no processor
        dialog.accept()

    page.on("dialog", stand_still)
    tab = page.get_by_role("tab", name="Logs", exact=True)
    # The click is the first thing that the page does afterwards, before it can find its socket closed.
    tab.evaluate("tab => { setTimeout(() => { alert('busy'); tab.click(); }) }")
    expect(page.get_by_role("button", name="One rank")).to_be_visible(timeout=20_000)


def open_tab(page: Page, tab: str) -> None:
    """Opens it by a click: a page that is loaded again costs a second of processor time."""
    page.get_by_role("tab", name=tab.capitalize(), exact=True).click()
    expect(page.get_by_role("tab", name=tab.capitalize(), exact=True)).to_have_attribute("aria-selected", "true")


def test_the_overview_says_why_and_shows_the_cause_of_each_gap(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits")
    expect(page.get_by_text("What to do:").first).to_be_visible()
    expect(page.get_by_text("Gap for 2m: Hardware GPUFailed on gpu-7")).to_be_visible()
    expect(page.get_by_text("Restarting for 2m30s: lost digits-1a2b3c-3-w1-0")).to_be_visible()
    expect(page.get_by_text("Training lost, made again")).to_be_visible()
    expect(page.locator(CANVAS)).to_have_count(2)


def test_the_overview_advises_how_often_to_save(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits-b")
    card = page.locator(".q-card", has_text="CheckpointsTooRare").first
    expect(card.get_by_text("What to do: Save about as often as the message says")).to_be_visible()
    link = card.get_by_role("link", name="What is this?").get_attribute("href")
    assert link == "/docs/how-to/how-often-to-save.md#what-the-present-interval-costs"


def test_a_finding_leads_to_the_section_about_it(five: Server, visit: Visiting) -> None:
    visited = visit(five)
    page = visited.open("/jobs/team-a/hung")
    card = page.locator(".q-card", has_text="NoSteps").first
    link = card.get_by_role("link", name="What is this?").get_attribute("href")
    assert link == "/docs/how-to/detect-hangs.md#training-that-hangs"
    visited.open(link)
    expect(page.get_by_role("heading", name="Training that hangs")).to_be_in_viewport()


def test_the_page_of_the_run_in_its_tracker_is_a_link(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits")
    link = page.get_by_role("link", name="Tracker", exact=True)
    expect(link).to_have_attribute("href", TRACKER_URL)
    expect(link).to_have_attribute("rel", "noopener noreferrer")


def test_an_address_that_would_run_a_script_is_no_link(hostile: Server, visit: Visiting) -> None:
    page = visit(hostile).open("/jobs/team-a/digits")
    expect(page.get_by_text("Goodput 86.2%")).to_be_visible()
    expect(page.get_by_text("javascript:")).to_be_visible()
    expect(page.get_by_role("link", name="Tracker", exact=True)).to_have_count(0)


def test_curves_are_drawn_compared_and_smoothed(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits?tab=curves")
    expect(page.locator(CANVAS)).to_have_count(4)
    page.get_by_label("Compare with").click()
    page.get_by_role("option", name="team-a/digits-b").click()
    page.keyboard.press("Escape")
    expect(page.locator(CANVAS)).to_have_count(4)
    wait_for_series(page, ["digits", "digits-b"])
    page.get_by_role("button", name="Clock").click()
    wait_for(page, "option => option.xAxis[0].type === 'time'")
    page.get_by_text("Logarithmic").click()
    wait_for(page, "option => option.yAxis[0].type === 'log'")


def wait_for(page: Page, holds: str) -> None:
    """Waits until the options of the first chart are so."""
    page.wait_for_function(
        "holds => { const c = document.querySelector('.nicegui-echart');"
        " const e = c && getElement(Number(c.id.slice(1))); return e && e.chart && eval(holds)(e.chart.getOption()); }",
        arg=holds,
    )


def wait_for_series(page: Page, names: list[str]) -> None:
    wait_for(page, f"option => option.series.map(s => s.name).join() === '{','.join(names)}'")


def test_checkpoints_tell_the_newest_and_the_best(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits?tab=checkpoints")
    assert "best" in wait_for_row(page, "checkpoint_1")
    newest = wait_for_row(page, "checkpoint_2")
    assert "newest" in newest
    assert "293.0 KiB" in newest or "300" in newest


def wait_for_row(page: Page, row: str) -> str:
    expect(page.locator(f'.ag-row[row-id="{row}"]').first).to_be_visible()
    return " ".join(page.locator(f'.ag-row[row-id="{row}"]').all_inner_texts())


def test_ranks_are_asked_on_demand(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/hung?tab=ranks")
    expect(page.get_by_text("Rank 5 at 0.68")).to_be_visible()
    page.get_by_role("button", name="Ask all ranks").click()
    expect(page.get_by_text("8 ranks, 2 different stacks")).to_be_visible()
    suspect = wait_for_row(page, "3")
    for text in ("1699", "in load, inside pyarrow", "4%", "61.0 GiB of 80.0 GiB"):
        assert text in suspect
    assert "0.68" in wait_for_row(page, "5")
    expect(page.get_by_text('File "train.py", line 41 in load')).to_be_visible()


def test_logs_are_live_searched_and_of_any_rank_and_attempt(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits?tab=logs")
    expect(page.get_by_text("(rank 3) step 399: loss 0.0050")).to_be_visible()
    assert page.get_by_text("line 41, in train_func").inner_text() == TRACEBACK
    page.get_by_label("Search").fill("step 123")
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="One rank").click()
    page.get_by_label("Rank", exact=True).fill("2")
    expect(page.get_by_text("(rank 2) step 398: loss 0.0050")).to_be_visible()
    expect(page.get_by_text("(rank 3)")).to_have_count(0)
    page.get_by_role("button", name="Head pod").click()
    page.get_by_label("Attempt").click()
    page.get_by_role("option", name="1, archived").click()
    expect(page.get_by_text("archived line 299")).to_be_visible()


def test_the_spec_and_what_is_made_of_it_are_shown(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/digits?tab=spec")
    expect(page.get_by_text("workersPerPod: 4").first).to_be_visible()
    expect(page.get_by_text("kind: NetworkPolicy")).to_be_visible()


def test_a_readers_pod_is_started_only_after_a_question(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/failed?tab=checkpoints")
    page.get_by_role("button", name="Start a reader's pod").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Start a reader's pod")).to_be_visible()
    assert page.locator('.ag-row[row-id="checkpoint_1"]').count() == 0
    page.get_by_role("button", name="Start a reader's pod").click()
    page.get_by_role("button", name="Start the pod").click()
    wait_for_row(page, "checkpoint_1")


def test_a_deleted_job_says_so_and_one_that_never_was(five: Server, visit: Visiting) -> None:
    visited = visit(five)
    page = visited.open("/jobs/team-a/deleted")
    expect(page.get_by_text("Deleted", exact=True)).to_be_visible()
    expect(page.get_by_text("What to do:").first).to_be_visible()
    expect(visited.open("/jobs/team-a/never").get_by_text("There is no such job")).to_be_visible()
    expect(visited.page.get_by_text("Timeline of attempts")).to_be_hidden()
    visited.open("/")
    find_row(page, "digits")
    assert page.locator('.ag-row[row-id="team-a/deleted"]').count() == 0


def test_the_runs_of_a_storage_are_listed_without_their_jobs(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/")
    page.get_by_role("link", name="Past runs").click()
    expect(page.get_by_text("4 runs")).to_be_visible()
    for name, words in {"living": "Running", "lost": "Lost", "broken": "TrainFunctionRaised", "wide": "12"}.items():
        assert words in wait_for_row(page, name)
    page.get_by_role("link", name="broken").click()
    expect(page).to_have_url(re.compile("/runs/0/broken$"))
    expect(page.get_by_text("shapes (3,4) and (5,) do not match")).to_be_visible()
    expect(page.get_by_text("Ended: Application TrainFunctionRaised")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "state", "is_narrow"), [("living", "Running", False), ("broken", "Failed", True)], ids=["wide", "narrow"]
)
def test_each_view_of_a_past_run_fits_and_says_something(
    five: Server, visit: Visiting, name: str, state: str, is_narrow: bool
) -> None:
    page = visit(five, is_narrow=is_narrow, is_dark=is_narrow).open(f"/runs/0/{name}")
    expect(page.locator(".rh-badge").first).to_have_text(state)
    for tab in [each for each in TABS if each != "ranks"]:
        open_tab(page, tab)
        expect(page.locator(".q-tab-panel").first).to_contain_text(re.compile(r"\w{4}"))
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]


def test_a_past_run_has_curves_checkpoints_logs_and_what_it_was_to_run(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/runs/0/broken?tab=curves")
    expect(page.locator(CANVAS)).to_have_count(4)
    page.get_by_label("Compare with").click()
    page.get_by_role("option", name="runs/wide").click()
    page.keyboard.press("Escape")
    wait_for_series(page, ["broken", "wide"])
    open_tab(page, "checkpoints")
    assert "newest" in wait_for_row(page, "checkpoint_2")
    open_tab(page, "logs")
    page.get_by_label("Attempt").click()
    page.get_by_role("option", name="1, archived").click()
    expect(page.get_by_text("archived line 299")).to_be_visible()
    open_tab(page, "spec")
    expect(page.get_by_text("image: registry.example.com/train:1")).to_be_visible()


def test_a_job_that_is_gone_leads_to_what_its_run_has_left(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/jobs/team-a/wide")
    expect(page.get_by_text("There is no such job")).to_be_visible()
    page.get_by_role("link", name="What its run wide has left").click()
    expect(page).to_have_url(re.compile("/runs/0/wide$"))
    expect(page.get_by_text("Succeeded", exact=True).first).to_be_visible()


def test_what_is_no_run_says_so(five: Server, visit: Visiting) -> None:
    visited = visit(five)
    for path in ("/runs/0/none", "/runs/7", "/runs/7/digits", "/runs/-1", "/runs/0/a%5Cb"):
        page = visited.open(path)
        expect(page.get_by_text(re.compile("no such (job|run|storage)|can have this name")).first).to_be_visible()


def test_the_documentation_is_there_without_the_network(five: Server, visit: Visiting) -> None:
    page = visit(five).open("/docs/how-to/see-why.md")
    expect(page.locator(".rh-doc h1")).to_be_visible()
    page.locator(".rh-doc a[href*='.md']").first.click()
    expect(page.locator(".rh-doc h1")).to_be_visible()


def test_dark_light_and_as_the_browser_says(five: Server, visit: Visiting) -> None:
    page = visit(five, is_dark=True).open("/")
    expect(page.locator("body.body--dark")).to_be_visible()
    button = page.get_by_label("Light, dark, or as the browser says")
    button.click()
    button.click()
    expect(page.locator("body.body--light")).to_be_visible()
    page.reload()
    expect(page.locator("body.body--light")).to_be_visible()
    page.get_by_label("Light, dark, or as the browser says").click()
    expect(page.locator("body.body--dark")).to_be_visible()


@pytest.mark.parametrize(
    "task",
    [
        *(pytest.param(task, id=task.question) for task in TASKS if task.do in ONLY_AS_TASKS),
        *(
            pytest.param(task, id=task.question, marks=pytest.mark.slow)
            for task in TASKS
            if task.do not in ONLY_AS_TASKS
        ),
    ],
)
def test_a_question_has_its_answer_within_so_many_clicks(five: Server, visit: Visiting, task: Task) -> None:
    person = Person(visit(five).open("/"))
    task.do(person)
    assert person.clicks == task.clicks


def test_hostile_text_stays_text(hostile: Server, visit: Visiting) -> None:
    shown = {"overview": HOSTILE[0], "ranks": HOSTILE[0], "logs": HOSTILE[1], "events": HOSTILE[0], "spec": HOSTILE[1]}
    page = visit(hostile).open("/jobs/team-a/digits")
    for tab in TABS:
        open_tab(page, tab)
        if tab == "ranks":
            page.get_by_role("button", name="Ask all ranks").click()
            expect(page.get_by_text("2 different stacks")).to_be_visible()
            for each in page.locator(".q-expansion-item .q-item").all():
                each.click()
        if tab in ("curves", "checkpoints"):
            expect(page.get_by_text("Reading the run's folder")).to_have_count(0)
        expect(page.locator(".q-tab-panel").first).to_contain_text(re.compile(r"\w{4}"))
        if tab in shown:
            expect(page.get_by_text(shown[tab]).first).to_be_attached()
        check_nothing_has_run(page, title="digits")


def check_nothing_has_run(page: Page, *, title: str) -> None:
    """Raises AssertionError if a text of `HOSTILE` became more than text on this page."""
    page.wait_for_timeout(1000)  # for what a handler of an image would do
    assert page.title() == title, page.url
    assert page.evaluate("document.querySelectorAll('img[src=x], svg[onload]').length") == 0, page.url
    assert "\u202e" not in page.inner_text("body"), page.url
    assert "\x1b" not in page.inner_text("body"), page.url


def test_hostile_text_of_a_record_stays_text(hostile: Server, visit: Visiting) -> None:
    visited = visit(hostile)
    expect(visited.open("/runs/0").get_by_text(HOSTILE[0]).first).to_be_attached()
    check_nothing_has_run(visited.page, title="Past runs")
    page = visited.open("/runs/0/digits")
    for tab in [each for each in TABS if each != "ranks"]:
        open_tab(page, tab)
        expect(page.locator(".q-tab-panel").first).to_contain_text(re.compile(r"\w{4}"))
        if tab in ("overview", "spec"):
            expect(page.get_by_text(HOSTILE[0]).first).to_be_attached()
        check_nothing_has_run(page, title="digits")


def test_two_thousand_jobs_stay_usable(many: Server, visit: Visiting) -> None:
    page = visit(many).open("/")
    find_row(page, "job-0000")
    page.get_by_label("Filter").fill("job-1234")
    expect(page.locator(".ag-center-cols-container .ag-row")).to_have_count(1)
    before = find_row(page, "job-1234")
    assert "job-1234" in before
    page.get_by_label("Filter").fill("")
    page.get_by_text("Progress", exact=True).click()
    page.get_by_text("Progress", exact=True).click()
    expect(page.locator('.ag-row[row-index="0"]').first).to_contain_text("100%")


@pytest.mark.parametrize("headers", [{}, {"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_the_server_answers_nobody_else(five: Server, headers: dict[str, str]) -> None:
    for path in ("/", "/jobs/team-a/digits", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(urllib.request.Request(five.base + path, headers=headers))
        assert raised.value.code in (403, 405)
        raised.value.close()
