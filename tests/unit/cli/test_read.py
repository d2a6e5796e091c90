"""What `list`, `status`, `why` and `timeline` print: golden files at 80 and 120 columns and in a pipe."""

from __future__ import annotations

import json

import pytest
import yaml

from railhead.client.explain.summary import summarize
from tests.unit.cli.screens import GOLDEN, SCREENS, WIDTHS, show
from tests.unit.client.jobs import make_job, make_pod, make_snapshot

FAILED = "a-job-with-a-name-that-is-quite-long-01"


@pytest.mark.parametrize("place", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_the_output_is_that_of_the_golden_file(name: str, place: str) -> None:
    found = show(SCREENS[name], WIDTHS[place])
    assert found == (GOLDEN / f"{name}-{place}.txt").read_text()
    assert "\x1b" not in found


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    if name != "list-wide":  # all its columns are wanted
        assert not [line for line in show(SCREENS[name], width).splitlines() if len(line) > width]


@pytest.mark.parametrize("command", ["status", "why"])
def test_no_character_of_the_cluster_acts_on_a_terminal(command: str) -> None:
    shown = show([command, FAILED], 80, is_terminal=True)
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    "arguments", [["list"], ["status", "digits"], ["why", FAILED], ["timeline", "digits"], ["doctor"], ["top"]]
)
def test_json_and_yaml_have_the_same_values(arguments: list[str]) -> None:
    found = json.loads(show([*arguments, "-o", "json"], None))
    assert found == yaml.safe_load(show([*arguments, "-o", "yaml"], None))


def test_json_has_the_fields_of_a_job() -> None:
    row = json.loads(show(["list", "-o", "json"], None))["items"][1]
    assert (row["name"], row["progress"], row["waitsFor"]) == ("digits", "42%", "")


def test_names_are_one_a_line() -> None:
    assert show(["list", "-o", "name"], None).splitlines()[1:3] == ["digits", "new"]
    assert show(["list", "-A", "-o", "name"], None).splitlines()[1] == "team-a/digits"


def test_phases_have_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32mRunning\x1b[0m" in show(["list"], 120, is_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in show(["list"], 120, is_terminal=True)


@pytest.mark.parametrize(("phase", "titles"), [("Running", ["Pods that do not run"]), ("Succeeded", [])])
def test_a_pod_that_has_done_its_work_is_no_trouble_of_a_job_that_succeeded(phase: str, titles: list[str]) -> None:
    """A worker pod that ends before its job does is one."""
    job = make_job(phase=phase, attempt=1)
    snapshot = make_snapshot(job, [make_pod("digits-head", phase="Succeeded")])
    assert [section.title for section in summarize(snapshot).sections] == titles
