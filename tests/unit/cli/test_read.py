"""What `list`, `status`, `why` and `timeline` print: golden files at 80 and 120 columns and in a pipe."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml

from railhead.api.base import Object
from railhead.cli import read
from railhead.cli.main import build_parser
from railhead.cli.output import Console
from tests.unit.cli.screens import GOLDEN, JOBS, SCREENS, WIDTHS, FixedCluster, show
from tests.unit.client.jobs import make_running

FAILED = "a-job-with-a-name-that-is-quite-long-01"


def make_changing_cluster(changes: list[tuple[Object | None, Object | None]]) -> Any:
    """A cluster whose watch has these changes of a job, each from one to the next."""

    class ChangingCluster(FixedCluster):
        async def watch_jobs(self, selector: str, on_change: Any, read: Any) -> None:
            for old, new in changes:
                on_change(old and read(old), new and read(new))

    return ChangingCluster("team-a")


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


async def test_watching_prints_a_job_again_only_when_its_row_differs() -> None:
    stream = io.StringIO()
    same, changed = JOBS["digits"], make_running(progress={"percentComplete": 43})
    await read.list_jobs(
        build_parser().parse_args(["list", "-w"]),
        make_changing_cluster([(None, same), (same, changed), (changed, changed), (changed, None)]),
        Console(stream),
    )
    last = [line.split() for line in stream.getvalue().splitlines()[-2:]]
    assert last == [["digits", "Running", "43%", "-", "1", "-", "2h"], ["digits", "is", "gone"]]
    assert len(stream.getvalue().splitlines()) == 1 + len(JOBS) + 2


async def test_watching_in_a_data_format_prints_documents_only(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    await read.list_jobs(
        build_parser().parse_args(["list", "-w", "-o", "yaml"]),
        make_changing_cluster([(None, make_running()), (make_running(), None)]),
        Console(stream),
    )
    assert [len(each["items"]) for each in yaml.safe_load_all(stream.getvalue())] == [len(JOBS), 1]
    assert capsys.readouterr().err == "digits is gone\n"
