"""What a user may type, and what runs then."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module

import pytest
from tools.cli_reference import find_commands

from railhead.cli.parser import build_parser, count


def list_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields the parsers of all commands."""
    inner = [each for _, each in find_commands(parser)]
    for each in inner:
        yield from list_parsers(each)
    if not inner:
        yield parser


def test_each_command_has_its_function_and_each_function_its_command() -> None:
    runs = {(each.get_default("module"), each.get_default("command")) for each in list_parsers(build_parser())}
    modules = {module: import_module(f"railhead.cli.{module}") for module, _ in runs}
    functions = {
        (name, function.removeprefix("do_"))
        for name, module in modules.items()
        for function in vars(module)
        if function.startswith("do_")
    }
    # What a command does with --folder, without a cluster.
    of_folder = {(module, name) for module, name in functions if name.endswith("_of_folder")}
    assert functions - of_folder == runs
    for module, name in of_folder:
        command = name.removesuffix("_of_folder")
        (parser,) = (each for each in list_parsers(build_parser()) if each.get_default("command") == command)
        assert parser.get_default("module") == module and "--folder" in parser.format_help()


def test_a_count_is_a_number_from_zero() -> None:
    assert count("0") == 0
    for text in ("-1", "x", "", "9" * 10):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 0"):
            count(text)
