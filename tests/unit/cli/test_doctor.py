"""The exit code of `railhead doctor`; tests/unit/cli/golden has its output."""

from __future__ import annotations

import pytest

from railhead.cli.doctor import choose_exit_code
from railhead.client.cluster.readiness import ERROR, NOT_PERMITTED, OK, WARNING, Check
from railhead.client.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("levels", "code"),
    [
        ([OK, WARNING], ExitCode.DONE),
        ([OK, NOT_PERMITTED, WARNING], ExitCode.DENIED),
        ([NOT_PERMITTED, ERROR, OK], ExitCode.FAILED),
    ],
)
def test_the_exit_code_is_that_of_the_worst_check(levels: list[str], code: ExitCode) -> None:
    assert choose_exit_code([Check("a", level, "b.") for level in levels]) == code
