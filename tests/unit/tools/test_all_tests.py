"""The parts of `make test-all`: what they cover, and that their seconds are printed whatever happens."""

from __future__ import annotations

import ast
import re
from itertools import count
from pathlib import Path

import pytest
from tools.all_tests import PARTS, Part, main, run_parts

PROJECT = Path(__file__).resolve().parents[3]
NAME_THE_MARK = (Path(__file__).name, "slow_cases.py")


def run_with(codes: dict[str, int]) -> tuple[list[str], int]:
    """Returns the parts that ran, each of which takes a second, and the exit code."""
    names = {id(part): name for name, part in PARTS.items()}
    ran: list[str] = []

    def run(part: Part) -> int:
        ran.append(names[id(part)])
        return codes.get(ran[-1], 0)

    clock = count(step=1.0)
    return ran, run_parts(["fuzz", "e2e", "node"], run=run, clock=lambda: next(clock))


def test_a_failed_part_stops_no_other_and_all_seconds_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    ran, code = run_with({"e2e": 3})
    assert (ran, code) == (["fuzz", "e2e", "node"], 1)
    table = capsys.readouterr().out.partition("== all parts\n")[2].splitlines()
    assert [line.split() for line in table] == [
        ["fuzz", "1", "s", "passed"],
        ["e2e", "1", "s", "FAILED", "(exit", "code", "3)"],
        ["node", "1", "s", "passed"],
        ["total", "3", "s"],
    ]


def test_parts_that_pass_exit_with_0() -> None:
    assert run_with({})[1] == 0


def test_an_interruption_prints_the_seconds_of_the_parts_before(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(part: Part) -> int:
        if part is PARTS["e2e"]:
            raise KeyboardInterrupt
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_parts(["fuzz", "e2e"], run=interrupt)
    assert "== 1 of 2 parts\n   fuzz" in capsys.readouterr().out


def test_names_the_parts_when_one_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["none"])
    assert exit_.value.code == 2
    assert "there is no part none; the parts are test, unit, fuzz" in capsys.readouterr().err


def test_each_folder_with_slow_tests_is_in_a_part() -> None:
    commands = [part.command for part in PARTS.values()]
    # A part that selects no marker runs its slow tests as well.
    parts = [each for each in commands if all("not slow" not in argument for argument in each)]
    covered = {argument for command in parts for argument in command}
    slow = {
        f"tests/{path.relative_to(PROJECT / 'tests').parts[0]}"
        for path in (PROJECT / "tests").rglob("*.py")
        if re.search("mark.slow|slow_after", path.read_text()) and path.name not in NAME_THE_MARK
    }
    # Its slow cases of tests/api come from tests/fuzz/seeds.py.
    assert slow | {"tests/api"} <= covered


def test_the_files_of_parts_exist() -> None:
    paths = [a.removeprefix("--ignore=") for p in PARTS.values() for a in p.command if "tests/" in a]
    assert [path for path in paths if not (PROJECT / path).exists()] == []


def test_each_test_that_needs_a_real_node_is_among_those_that_run_on_one() -> None:
    """A test that local mode skips would otherwise run in no part."""
    skips = re.compile(r"if cluster\.(is_local|volume_folder is None):\n +pytest\.skip")
    needing: list[str] = []
    unmarked: list[str] = []
    for path in (PROJECT / "tests" / "e2e").glob("test_*.py"):
        module = ast.parse(text := path.read_text())
        of_all = [line for line in text.splitlines() if line.startswith("pytestmark")]
        for function in module.body:
            if isinstance(function, ast.FunctionDef) and skips.search(ast.get_source_segment(text, function) or ""):
                needing.append(function.name)
                marks = " ".join([*of_all, *map(ast.unparse, function.decorator_list)])
                unmarked += [] if re.search(r"mark\.(node|reading)\b", marks) else [f"{path.name}: {function.name}"]
    assert needing and unmarked == []
