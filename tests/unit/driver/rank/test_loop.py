"""The training function of a user's own trainer, as a rank runs it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from railhead.driver.rank import run as rank
from railhead.driver.rank.loop import mark_loop


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "find_self", lambda: (1, "ab-1"))


@pytest.mark.parametrize("code", [0, None])
def test_a_function_that_exits_without_an_error_has_succeeded(code: int | None) -> None:
    """As with trainFunc, and as any program in Python."""

    def run(config: Any) -> None:
        sys.exit(code)

    assert mark_loop(run)({}) is None and mark_loop(lambda: sys.exit(code))() is None
    assert rank.read_end().stage == rank.RETURNED


def test_an_exit_of_the_actor_or_with_a_code_is_none() -> None:
    def exit_actor() -> None:
        error = SystemExit(0)
        error.is_ray_terminate = True  # type: ignore[attr-defined]
        raise error

    for function in (exit_actor, lambda: sys.exit(3)):
        with pytest.raises(SystemExit):
            mark_loop(function)()
        assert rank.read_end().stage == rank.RAISED
