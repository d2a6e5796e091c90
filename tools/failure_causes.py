"""A pytest plugin: writes to the file `CAUSES` each exception that made a test fail, with its base classes.

One that the code under test caught and logged counts too: it is why the test failed later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.logging import caplog_records_key

CAUSES = "RAILHEAD_FAILURE_CAUSES"


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
    assert call.excinfo is not None
    records = [record for phase in node.stash.get(caplog_records_key, {}).values() for record in phase]
    logged = [record.exc_info[1] for record in records if record.exc_info and record.exc_info[1]]
    causes = [cause for error in (call.excinfo.value, *logged) for cause in _split(error)]
    with Path(os.environ[CAUSES]).open("a") as file:
        file.writelines(f"{json.dumps([kind.__name__ for kind in type(cause).__mro__])}\n" for cause in causes)


def _split(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, pytest.Collector.CollectError) and error.__cause__:
        yield error.__cause__
    elif isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _split(part)
    else:
        yield error
