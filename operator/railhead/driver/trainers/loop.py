"""The function of a trainer that the user made, run between our marks.

The user's own exceptions go on to Ray Train as they are, for the user's code may look at
them; beside their message they carry what we say of them (`errors.note_exception`).
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from railhead.driver.errors import build_training_error, choose_kind, is_portable, note_exception
from railhead.driver.logs.marks import BEGIN, END, find_self, write_marks
from railhead.driver.trainers.initial import offer_checkpoint
from railhead.driver.trainers.lightgbm_machines import use_loopback
from railhead.driver.user_code.load import has_parameter


def mark_loop(function: Callable[..., Any], *, initial: str = "") -> Callable[..., Any]:
    """A function of as many parameters as the user's; `initial` is the URI of a checkpoint to begin from, or empty.

    Raises TypeError when Ray would not call that.
    """
    return functools.partial(_run_with_config if has_parameter(function) else _run_without, function, initial)


def _run(function: Callable[..., Any], initial: str, *arguments: Any) -> Any:
    rank, process = find_self()
    write_marks(BEGIN, rank=rank, process=process)
    use_loopback()
    offer_checkpoint(initial)
    try:
        return function(*arguments)
    except Exception as error:
        note_exception(error, rank)
        if is_portable(error):
            raise
        raise build_training_error(choose_kind(error), rank, error) from error
    finally:
        write_marks(END, rank=rank, process=process)


# Ray looks at the signature to know whether to hand over the config.
def _run_with_config(function: Callable[..., Any], initial: str, config: Any) -> Any:
    return _run(function, initial, config)


def _run_without(function: Callable[..., Any], initial: str) -> Any:
    return _run(function, initial)
