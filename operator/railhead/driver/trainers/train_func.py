"""What is handed to Ray: a function of ours that imports the user's on the worker and calls it.

Runs once per rank, in Ray Train's training thread.
"""

from __future__ import annotations

from typing import Any, Callable

from railhead.driver.errors import EntrypointNotUsable, TrainFunctionRaised, build_training_error, choose_kind
from railhead.driver.logs.marks import BEGIN, END, find_self, write_marks
from railhead.driver.trainers.initial import offer_checkpoint
from railhead.driver.trainers.lightgbm_machines import use_loopback
from railhead.driver.user_code.load import has_parameter, load_function

ENTRYPOINT, CONFIG, INITIAL = "entrypoint", "config", "initial"

# What a broken entrypoint raises while it is imported. Anything else (a network that does
# not answer, a full disk) may be different the next time.
_LASTING = (ImportError, SyntaxError, AttributeError, NameError, TypeError)


def run_train_func(values: dict[str, Any]) -> Any:
    """`values`: {entrypoint: "module:function", config: trainLoopConfig, initial: a checkpoint's URI or empty}."""
    rank, process = find_self()
    write_marks(BEGIN, rank=rank, process=process)
    use_loopback()
    offer_checkpoint(values.get(INITIAL) or "")
    try:
        function = _load(values[ENTRYPOINT], rank)
        return _call(function, values.get(CONFIG) or {}, rank)
    finally:
        write_marks(END, rank=rank, process=process)


def _load(entrypoint: str, rank: int) -> Callable[..., Any]:
    try:
        return load_function(entrypoint)
    except _LASTING as error:
        raise build_training_error(EntrypointNotUsable, rank, error) from error
    except Exception as error:
        raise build_training_error(TrainFunctionRaised, rank, error) from error


def _call(function: Callable[..., Any], config: dict[str, Any], rank: int) -> Any:
    try:
        takes_config = has_parameter(function)
    except (TypeError, ValueError) as error:
        raise build_training_error(EntrypointNotUsable, rank, error) from error
    try:
        result = function(config) if takes_config else function()
    except Exception as error:
        raise build_training_error(choose_kind(error), rank, error) from error
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        raise build_training_error(TrainFunctionRaised, rank, error) from error
    # The controller may lack the result's class, and nobody asks for it.
    return result if isinstance(result, (str, int, float, bool)) else None
