"""The format of the operator's own log."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from railhead.cli.log_format import set_up_logging


@contextlib.contextmanager
def own_handlers() -> Iterator[None]:
    """As in a new process: pytest has handlers of its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_json_has_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    began = datetime.now(UTC)
    with own_handlers():
        set_up_logging("json", level="INFO")
        try:
            raise ValueError("of two\nlines")
        except ValueError:
            logging.getLogger("railhead.loop").exception("job %s: %s", "team/digits", "a text of\ntwo lines")
        logging.getLogger("railhead").debug("not shown")
    [line] = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert began <= datetime.fromisoformat(found.pop("time")) <= datetime.now(UTC)
    assert found.pop("exc_info").startswith("Traceback")
    assert found == {
        "severity": "ERROR",
        "logger": "railhead.loop",
        "message": "job team/digits: a text of\ntwo lines",
    }


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with own_handlers():
        set_up_logging("text", level="WARNING")
        logging.getLogger("railhead").warning("careful")
    assert capsys.readouterr().err.endswith(" WARNING railhead: careful\n")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_terminal_acts_on_nothing_of_it(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A message of a webhook, or of a server in between, may quote what a user wrote."""
    hostile = "a\x1b]0;owned\x07\x9b31m\u202e\nINFO railhead: forged"
    with own_handlers():
        set_up_logging(log_format, level="INFO")
        logging.getLogger("railhead").info("%s", hostile)
        try:
            raise ValueError(hostile)
        except ValueError:
            logging.getLogger("railhead").exception("failed")
    said = capsys.readouterr().err
    assert said.replace("\n", "").isprintable()
    assert "owned" in said.splitlines()[0] and "forged" in said.splitlines()[0], "a line per record"
