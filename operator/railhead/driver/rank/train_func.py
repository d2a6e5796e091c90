"""The function that Ray receives: ours, which imports the user's function on the worker and calls it.

Runs once per rank, in Ray Train's training thread.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from railhead.driver.errors import EntrypointNotUsable, TrainFunctionRaised, build_training_error
from railhead.driver.rank.run import call_function, run_rank
from railhead.driver.user_code import has_parameter, load_function

ENTRYPOINT, CONFIG, INITIAL = "entrypoint", "config", "initial"

# What a broken entrypoint raises during its import. Anything else (a network that does
# not respond, a full disk) may succeed next time.
_PERMANENT = (ImportError, SyntaxError, AttributeError, NameError, TypeError)


def run_train_func(values: dict[str, Any]) -> Any:
    """`values`: {entrypoint: "module:function", config: trainLoopConfig, initial: a checkpoint's URI or empty}."""
    call = partial(_load_and_call, values[ENTRYPOINT], values.get(CONFIG) or {})
    result = run_rank(call, initial=values.get(INITIAL) or "", keeps_exception=False)
    # The controller may lack the result's class, and nobody uses it.
    return result if isinstance(result, (str, int, float, bool)) else None


def _load_and_call(entrypoint: str, config: dict[str, Any], rank: int) -> Any:
    function = _load(entrypoint, rank)
    try:
        takes_config = has_parameter(function)
    except (TypeError, ValueError) as error:
        raise build_training_error(EntrypointNotUsable, rank, error) from error
    return call_function(function, config) if takes_config else call_function(function)


def _load(entrypoint: str, rank: int) -> Callable[..., Any]:
    try:
        return load_function(entrypoint)
    except _PERMANENT as error:
        raise build_training_error(EntrypointNotUsable, rank, error) from error
    except Exception as error:
        raise build_training_error(TrainFunctionRaised, rank, error) from error
