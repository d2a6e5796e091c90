"""One rank's run of the user's function, and how it ended: the only record of success that counts.

Ray receives one of our functions, which calls the user's in Ray Train's training thread, once per rank. That of
trainer.trainFunc imports the user's function on the worker. That of a trainer that the user built calls the function it
was built with, and the user's own exceptions reach Ray Train unchanged, since the user's code may inspect them; in
addition they carry our description of them (`attempt_errors.note_exception`).

Ray Train runs the function in a thread, builds and logs its exception there, and treats a thread
that ended without an error as a success. Building and logging may both fail, because the exception
and the streams are the user's. So this module first records the outcome in this process, where Ray
Train's controller asks for it (`train_controller.returns_step`); nothing here that runs after the user's
function can raise.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import pickle
import time
from dataclasses import dataclass
from typing import Callable, Optional

from railhead.contract import environment
from railhead.contract.trackers import RUN_ID
from railhead.driver.container.user_code import has_parameter, load_function
from railhead.driver.messages.attempt_errors import (
    TrainingError,
    build_training_error,
    explain_exception,
    note_exception,
)
from railhead.driver.messages.exception_text import format_traceback
from railhead.driver.messages.exit_words import note_exit_words
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.messages.rank_marks import BEGIN, END, read_self, write_marks
from railhead.driver.rank.flight_recorder import switch_on_recorder
from railhead.driver.rank.gpu_use import watch_gpus
from railhead.driver.rank.rank_log import OwnLog, keep_logging_from_raising
from railhead.driver.rank.steps import STEPS, watch_optimizers
from railhead.driver.rank.tracker_link import read_link
from railhead.driver.rank.tracker_variables import set_tracker_variables
from railhead.driver.rank.watched_uploads import watch_uploads
from railhead.driver.ray.train_context import NOTICES, raise_refused_report, start_from_checkpoint, watch_notices

_NOT_PERMITTED = (
    "Ray Train's controller does not run Railhead's callbacks, so that nothing would keep an earlier head of this job "
    "from committing; check RAY_TRAIN_CALLBACKS if the image or the script sets it, and use a Ray version that "
    "Railhead is tested with"
)
# What a broken entrypoint raises during its import. Anything else (a network that does
# not respond, a full disk) may succeed next time.
_PERMANENT = (ImportError, SyntaxError, AttributeError, NameError, TypeError)
NOT_BEGUN = "not started"
BEGUN = "started"
RAISED = "raised"
RETURNED = "returned"


@dataclass
class RankEnd:
    """How far the function got in this process, which runs it once.

    Attributes:
        error: if it raised.
        age: of that error, in seconds, by this process's own clock: those of different machines differ.
        has_read_notice: it knew that the run, or a node, was about to end.
        tracker_url: where a tracker shows its run, or empty.
    """

    stage: str = NOT_BEGUN
    error: Optional[TrainingError] = None
    pod: str = ""
    age: float = 0.0
    has_read_notice: bool = False
    tracker_url: str = ""


_END = RankEnd()
_ended_at = 0.0
_is_permitted = False


def permit_training(run_id: str) -> None:
    """Lets this worker train; the controller calls it once its fence is in place, before torch's process group exists.

    `run_id`: of `contract.trackers`.
    """
    global _is_permitted
    _is_permitted = True
    os.environ[RUN_ID] = run_id
    with contextlib.suppress(Exception):
        switch_on_recorder()


def read_end() -> RankEnd:
    """Returns, on a worker, how far its function got."""
    age = time.monotonic() - _ended_at
    pod = os.environ.get(environment.POD_NAME, "")
    return RankEnd(_END.stage, _END.error, pod, age, NOTICES.was_read, read_link())


def run_train_func(entrypoint: str, config: object, resume_from: str) -> object:
    """Loads train_func and runs it as this rank's. `entrypoint`: "module:function"; `config`: trainLoopConfig;
    `resume_from`: a checkpoint's URI, or empty."""
    call = functools.partial(_load_and_call, entrypoint, config)
    result = run_rank(call, resume_from=resume_from, keeps_exception=False)
    # The controller may lack the result's class, and nobody uses it.
    if isinstance(result, (str, int, float, bool)):
        return result
    return None


def _load_and_call(entrypoint: str, config: object, rank: int) -> object:
    try:
        function = load_function(entrypoint)
    except _PERMANENT as error:
        raise build_training_error(RankErrorKind.UNUSABLE, rank, error) from error
    try:
        takes_config = has_parameter(function)
    except (TypeError, ValueError) as error:
        raise build_training_error(RankErrorKind.UNUSABLE, rank, error) from error
    if takes_config:
        return call_function(function, config)
    return call_function(function)


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


def run_rank(function: Callable[[int], object], *, resume_from: str, keeps_exception: bool) -> object:
    """Calls `function(rank)`; `resume_from` is the URI of a checkpoint to start from, or empty.

    Raises TrainingError, or with `keeps_exception` the user's own exception if it can be pickled.
    """
    global _ended_at
    _END.stage = BEGUN
    _END.error = None
    log = OwnLog()
    keep_logging_from_raising()
    rank = -1
    process = ""
    raised: BaseException
    try:
        rank, process = read_self()
        write_marks(BEGIN, rank=rank, process=process)
        if not _is_permitted:
            raise TrainingError(RankErrorKind.UNFENCED, rank, _NOT_PERMITTED)
        # Before the user's code, which may start its tracker on import.
        set_tracker_variables(os.environ, rank)
        watch_notices()
        watch_uploads()
        watch_optimizers()
        watch_gpus()
        start_from_checkpoint(resume_from)
        with note_exit_words():
            result = function(rank)
        _refuse_what_has_not_run(result, rank)
        raise_refused_report()
        _END.stage = RETURNED
        STEPS.has_returned = True
        return result
    except BaseException as error:
        _ended_at = time.monotonic()
        noted = explain_exception(error, rank)
        _END.error = noted
        _END.stage = RAISED
        log.write(format_traceback(error))
        note_exception(error, noted)
        raised = error if keeps_exception and _is_portable(error) else noted
    finally:
        if process:
            write_marks(END, rank=rank, process=process)
        log.close()
    # Outside the except clause: otherwise Ray would log the user's exception as its context.
    raise raised


def call_function(function: Callable[..., object], *arguments: object) -> object:
    """Returns what the user's function returns; `sys.exit(0)` in it ends it without an error, as it ends a program."""
    try:
        return function(*arguments)
    except SystemExit as error:
        if error.code in (None, 0) and not hasattr(error, "is_ray_terminate"):
            return None
        raise


def _is_portable(error: BaseException) -> bool:
    """Returns whether it survives pickling as Ray does it, by value if its class is from the user's script.

    It does not if its __init__ takes more arguments than it passes to the base class.
    """
    try:
        from ray import cloudpickle

        return type(pickle.loads(cloudpickle.dumps(error))).__name__ == type(error).__name__
    except BaseException:
        # Whatever the user's __reduce__ raises.
        return False


def _refuse_what_has_not_run(result: object, rank: int) -> None:
    """Refuses what an async function or generator returns that a decorator has hidden: its body never ran."""
    if inspect.iscoroutine(result):
        result.close()
    elif not (inspect.isasyncgen(result) or inspect.isgenerator(result)):
        return
    error = TypeError(f"the function returned a {type(result).__name__}, and its body never ran")
    raise build_training_error(RankErrorKind.UNUSABLE, rank, error)
