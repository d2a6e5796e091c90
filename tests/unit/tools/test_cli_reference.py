"""The page of the command line has every command and exit code; `make check` compares it with the file."""

from __future__ import annotations

import argparse

from tools.cli_reference import _describe, build_page, find_commands

from railhead.cli.parser import build_parser
from railhead.client.exit_codes import ExitCode


def test_the_page_has_every_command_with_its_own_options() -> None:
    page = build_page()
    commands = dict(find_commands(build_parser()))
    assert {"list", "why", "retry", "local", "operator", "version"} <= commands.keys()
    assert [line for line in page.splitlines() if line.startswith("## railhead ")] == [
        f"## railhead {name}" for name in commands
    ]
    assert all(f"| {int(code)} | " in page for code in ExitCode)


def test_a_command_has_a_row_for_each_argument() -> None:
    parser = argparse.ArgumentParser(prog="railhead x", description="Do it.")
    parser.add_argument("name", metavar="NAME", help="the job")
    parser.add_argument("-o", "--output", choices=("a", "b"), default="a", help="default: %(default)s")
    assert _describe("x", parser).splitlines()[-2:] == [
        "| `NAME` | the job |",
        "| `-o`, `--output` {a,b} | default: a |",
    ]
