"""The function of a trainer that the user made, run as a rank of ours (`rank.run`).

The user's own exceptions go on to Ray Train as they are, for the user's code may look at
them; beside their message they carry what we say of them (`errors.note_exception`).
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from railhead.driver.rank.run import run_rank
from railhead.driver.user_code.load import has_parameter


def mark_loop(function: Callable[..., Any], *, initial: str = "") -> Callable[..., Any]:
    """A function of as many parameters as the user's; `initial` is the URI of a checkpoint to begin from, or empty.

    Raises TypeError when Ray would not call that.
    """
    return functools.partial(_run_with_config if has_parameter(function) else _run_without, function, initial)


# Ray looks at the signature to know whether to hand over the config.
def _run_with_config(function: Callable[..., Any], initial: str, config: Any) -> Any:
    return run_rank(lambda _: function(config), initial=initial, keeps_exception=True)


def _run_without(function: Callable[..., Any], initial: str) -> Any:
    return run_rank(lambda _: function(), initial=initial, keeps_exception=True)
