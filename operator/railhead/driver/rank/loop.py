"""The function of a trainer that the user built, run as one of our ranks (`rank.run`).

The user's own exceptions reach Ray Train unchanged, since the user's code may inspect
them; in addition they carry our description of them (`errors.note_exception`).
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from railhead.driver.rank.run import call_function, run_rank
from railhead.driver.user_code import has_parameter


def mark_loop(function: Callable[..., Any], *, initial: str = "") -> Callable[..., Any]:
    """A function with as many parameters as the user's; `initial` is the URI of a checkpoint to start from, or empty.

    Raises TypeError when Ray would not accept the function.
    """
    return functools.partial(_run_with_config if has_parameter(function) else _run_without, function, initial)


# Ray inspects the signature to decide whether to pass the config.
def _run_with_config(function: Callable[..., Any], initial: str, config: Any) -> Any:
    return run_rank(lambda _: call_function(function, config), initial=initial, keeps_exception=True)


def _run_without(function: Callable[..., Any], initial: str) -> Any:
    return run_rank(lambda _: call_function(function), initial=initial, keeps_exception=True)
