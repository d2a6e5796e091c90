"""The functions that Ray receives: ours, each of which calls the user's function as one of our ranks (`rank.run`).

They run once per rank, in Ray Train's training thread. That of trainer.trainFunc imports the user's function on the
worker. That of a trainer that the user built calls the function it was built with, and the user's own exceptions reach
Ray Train unchanged, since the user's code may inspect them; in addition they carry our description of them
(`errors.note_exception`).
"""

from __future__ import annotations

import functools
from typing import Callable

from railhead.driver.errors import Kind, build_training_error
from railhead.driver.rank.run import call_function, run_rank
from railhead.driver.user_code import has_parameter, load_function

# What a broken entrypoint raises during its import. Anything else (a network that does
# not respond, a full disk) may succeed next time.
_PERMANENT = (ImportError, SyntaxError, AttributeError, NameError, TypeError)


def run_train_func(entrypoint: str, config: object, resume_from: str) -> object:
    """`entrypoint`: "module:function"; `config`: trainLoopConfig; `resume_from`: a checkpoint's URI, or empty."""
    call = functools.partial(_load_and_call, entrypoint, config)
    result = run_rank(call, resume_from=resume_from, keeps_exception=False)
    # The controller may lack the result's class, and nobody uses it.
    return result if isinstance(result, (str, int, float, bool)) else None


def _load_and_call(entrypoint: str, config: object, rank: int) -> object:
    try:
        function = load_function(entrypoint)
    except _PERMANENT as error:
        raise build_training_error(Kind.UNUSABLE, rank, error) from error
    try:
        takes_config = has_parameter(function)
    except (TypeError, ValueError) as error:
        raise build_training_error(Kind.UNUSABLE, rank, error) from error
    return call_function(function, config) if takes_config else call_function(function)


def mark_loop(function: Callable[..., object], *, resume_from: str = "") -> Callable[..., object]:
    """Returns a function with as many parameters as the user's, for a trainer that the user built.

    `resume_from` is the URI of a checkpoint to start from, or empty. Raises TypeError when Ray would not accept the
    function.
    """
    return functools.partial(_run_with_config if has_parameter(function) else _run_without, function, resume_from)


# Ray inspects the signature to decide whether to pass the config.
def _run_with_config(function: Callable[..., object], resume_from: str, config: object) -> object:
    return run_rank(lambda _: call_function(function, config), resume_from=resume_from, keeps_exception=True)


def _run_without(function: Callable[..., object], resume_from: str) -> object:
    return run_rank(lambda _: call_function(function), resume_from=resume_from, keeps_exception=True)
