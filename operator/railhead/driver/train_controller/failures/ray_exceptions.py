"""Translates Ray's exceptions into the errors of ranks."""

from __future__ import annotations

import re
import traceback

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.outcome import shorten_middle
from railhead.driver.messages.attempt_errors import AttemptFailed, JobRefused, TrainingError, read_note
from railhead.driver.messages.exception_text import describe_exception, read_text
from railhead.driver.messages.rank_errors import FOUND_BY_DRIVER, RankErrorKind
from railhead.driver.rank.failure_words import find_kind
from railhead.driver.train_controller.failures import classify_failure
from railhead.driver.train_controller.failures.classify_failure import (
    FailureFacts,
    FailureOrigin,
    RankError,
)
from railhead.driver.train_controller.failures.health_decision import translate_health_decision
from railhead.driver.train_controller.worker_group import Group

# Ray's own actors, which run no user code: they synchronize `report` and other collectives, and serve
# the shards of a dataset. Older Rays may start a new group's on a node that is lost but not yet
# known to be; and any process may crash. The function sees it as an error of what it called.
_RAYS_ACTORS = ("SynchronizationActor", "SplitCoordinator", "DatasetManager", "_AutoscalingCoordinatorActor")
_ACTOR_ERRORS = ("ray.exceptions.ActorDiedError", "ray.exceptions.ActorUnavailableError")
_CLASS_OF_ACTOR = re.compile(rf"class_name: (?:{'|'.join(_RAYS_ACTORS)})\b")
# Methods of Ray's callbacks that handle the reports of all ranks, and the results of validations.
_ON_REPORT = {"after_report", "update_checkpoints_with_validation_result", "update_checkpoints_with_metrics"}
# A rank that exits with a number is judged by it, and not by what its message quotes of standard error.
_EXITED = re.compile(r"SystemExit: -?\d")
_IN_FRAMEWORK = re.compile(r"/ray/train/\w+/__init__\.py.*, in <module>")
# Ray tells the process's names and numbers, each on a line, then what it knows of its end, and last what it guesses.
_PROCESS = re.compile(r"^\s*(?:class_name|actor_id|pid|name|namespace|ip): .*$", re.MULTILINE)
_END_OF_PROCESS = re.compile(r"Worker exit detail: (.*)", re.DOTALL)
_GUESSES = re.compile(
    r"\s*(?:Some common causes include|There are some potential root causes|If the process was killed by the kernel).*",
    re.DOTALL,
)
_MEMORY_PHRASES = ("running low on memory", "memory monitor", "memory usage threshold")


def translate_error(error: BaseException, group: Group) -> FailureFacts:
    """Translates what fit() raised into the failure's facts, by class names, which are the same in all Ray versions
    that we support."""
    names = list_class_names(error)
    # Ray's own detector; it names no rank.
    if "NCCLHangError" in names:
        return FailureFacts(FailureOrigin.WORKERS, (RankError(-1, RankErrorKind.UNANSWERED, _cut(error)),))
    decided = translate_health_decision(error)
    if decided is not None:
        return decided
    failures = getattr(error, "worker_failures", None)
    if failures is not None:
        errors = tuple(translate_rank_error(rank, each, group) for rank, each in sorted(failures.items()))
        return FailureFacts(FailureOrigin.WORKERS, errors, text=_cut(error))
    if "PreemptionError" in names:
        return FailureFacts(FailureOrigin.WORKERS, (RankError(-1, RankErrorKind.PREEMPTED, _cut(error)),))
    # Ray's monitor killed the controller: the head pod is too small.
    if _is_memory(error):
        text = f"the head pod ran out of memory (spec.head.resources): {_begin(error)}"
        return FailureFacts(FailureOrigin.CONTROLLER, (RankError(-1, RankErrorKind.KILLED_FOR_MEMORY, text),))
    inner = getattr(error, "controller_failure", error)
    if isinstance(inner, AttemptFailed):
        refusal = inner.failure
        is_passing = refusal.class_ in (FailureClass.INFRASTRUCTURE, FailureClass.HARDWARE)
        source = FailureOrigin.WORKERS if is_passing else FailureOrigin.CONTROLLER
        return FailureFacts(source, text=refusal.message, refusal=refusal)
    if inner is error:
        return FailureFacts(FailureOrigin.CONTROLLER, text=_cut(error))
    if isinstance(inner, OSError) and "RayError" not in list_class_names(inner):
        # The fence or Ray's snapshot; the controller opens no other files. A folder that is missing is a mount that is.
        return FailureFacts(FailureOrigin.WORKERS, (RankError(-1, RankErrorKind.STORAGE, describe_exception(inner)),))
    # What Ray Train runs on the workers' nodes before train_func.
    if _is_memory(inner):
        return FailureFacts(FailureOrigin.WORKERS, (RankError(-1, RankErrorKind.KILLED_FOR_MEMORY, _begin(inner)),))
    if "RuntimeEnvSetupError" in list_class_names(inner):
        text = f"spec.runtimeEnv: Ray cannot set it up: {_without_traceback(inner)}"
        return FailureFacts(FailureOrigin.STARTUP, text=text, refusal=JobRefused("RuntimeEnvNotUsable", text).failure)
    if {"WorkerGroupStartupFailedError", "WorkerGroupStartupTimeoutError"} & list_class_names(inner):
        return FailureFacts(FailureOrigin.STARTUP, text=_cut(inner))
    if _is_actor_error(inner):
        # An actor of the group that died during a call from the controller.
        return FailureFacts(FailureOrigin.WORKERS, (translate_rank_error(-1, inner, group),), text=_cut(inner))
    if "RayTaskError" in list_class_names(inner):
        return _translate_set_up_error(inner, group)
    if _is_of_report(inner):
        text = f"Ray Train's controller does not accept what the ranks have reported: {describe_exception(inner)}"
        return FailureFacts(FailureOrigin.WORKERS, (RankError(-1, RankErrorKind.RAISED, text),))
    return FailureFacts(FailureOrigin.CONTROLLER, text=f"{type(inner).__name__}: {_cut(inner)}")


def _is_of_report(error: BaseException) -> bool:
    """Returns whether Ray raised it while it handled a report, such as one in which the ranks name different
    checkpoints.

    The same function would report the same again. None of Railhead's own steps raises there.
    """
    return bool(_ON_REPORT & {frame.name for frame in traceback.extract_tb(error.__traceback__)})


def _translate_set_up_error(error: BaseException, group: Group) -> FailureFacts:
    """Translates an error of Ray's backend on a rank, such as a process group that does not form.

    A framework that the workers' image lacks appears here: Ray imports it to set up its backend, or to read what that
    is called with.
    """
    if "ImportError" in list_class_names(error) or _IN_FRAMEWORK.search(read_text(error)):
        text = f"spec.image: the workers cannot import the trainer's framework ({_last_line(error)}); fix the image"
        return FailureFacts(FailureOrigin.WORKERS, (RankError(-1, RankErrorKind.MISSING, text),))
    text = describe_exception(error)
    # Rank 0 says it of the others.
    rank = -1 if "clients joined" in text else group.find_rank(read_text(error))
    kind = find_kind(text, has_trained=group.has_trained(rank))
    text = f"the workers could not be set up: {text}"
    return FailureFacts(FailureOrigin.WORKERS, (RankError(rank, kind, text),) if kind else (), text=text)


def translate_rank_error(rank: int, error: BaseException, group: Group) -> RankError:
    error = read_note(error) or error
    if isinstance(error, TrainingError):
        kind = error.kind
        if error.text.startswith("ray.exceptions.") and any(phrase in error.text for phrase in _MEMORY_PHRASES):
            # A task or an actor of Ray Data that the function waited for.
            kind = RankErrorKind.KILLED_FOR_MEMORY
        elif error.text.startswith(_ACTOR_ERRORS) and _CLASS_OF_ACTOR.search(error.text):
            kind = RankErrorKind.ABANDONED
        elif kind == RankErrorKind.RAISED and not _EXITED.match(error.text):
            kind = find_kind(error.text, has_trained=group.has_trained(rank)) or kind
        return RankError(
            error.rank if kind in FOUND_BY_DRIVER else rank,
            kind,
            error.text,
            exit_code=error.exit_code,
        )
    cause: BaseException = getattr(error, "health_check_failure", None) or error
    if getattr(cause, "preempted", False):
        return RankError(rank, RankErrorKind.PREEMPTED, _cut(cause))
    if _is_memory(cause):
        return RankError(rank, RankErrorKind.KILLED_FOR_MEMORY, _begin(cause))
    if _is_actor_error(cause) or "WorkerHealthCheckTimeoutError" in list_class_names(cause):
        return RankError(rank, RankErrorKind.DIED, _describe_death(cause))
    # What train_func raises, and what the storage does not take, is a TrainingError or has our note. So this one is of
    # an upload in a thread of Ray Train's, such as of the user's own checkpoint_upload_fn.
    return RankError(rank, RankErrorKind.RAISED, describe_exception(cause))


def _is_actor_error(error: BaseException) -> bool:
    return bool({"RayActorError", "ActorDiedError", "ActorUnavailableError"} & list_class_names(error))


def _is_memory(error: BaseException) -> bool:
    """Returns whether Ray's memory monitor killed it. Ray's advice for any dead process mentions memory too."""
    if "OutOfMemoryError" in list_class_names(error):
        return not isinstance(error, TrainingError)
    return _is_actor_error(error) and any(phrase in read_text(error) for phrase in _MEMORY_PHRASES)


def _begin(error: BaseException) -> str:
    """Returns the beginning of a text that ends with advice."""
    return " ".join(read_text(error).split())[:400]


def list_class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _cut(error: BaseException) -> str:
    return _shorten(read_text(error))


def _shorten(text: str) -> str:
    return shorten_middle(" ".join(text.split()), 600)


def _describe_death(error: BaseException) -> str:
    """Returns what Ray knows of the end of a rank's process, without what it guesses."""
    text = _PROCESS.sub("", read_text(error))
    detail = _END_OF_PROCESS.search(text)
    if detail is None:
        return _shorten(text)
    known = _GUESSES.sub("", detail[1])
    return f"its process died; Ray says: {_shorten(known)}"


def _without_traceback(error: BaseException) -> str:
    """Returns the text from the last exception named in the tracebacks on; a subprocess's output follows it."""
    text = read_text(error)
    found = [match.start() for match in re.finditer(r"^[\w.]*(Error|Exception)\b", text, re.MULTILINE)]
    message = " ".join(text[found[-1] if found else 0 :].split())
    return shorten_middle(message, 1200)


def _last_line(error: BaseException) -> str:
    lines = [line for line in read_text(error).splitlines() if line.strip()]
    if lines:
        return lines[-1].strip()
    return type(error).__name__


def build_failure(error: BaseException) -> Failure:
    """Classifies what fit() raised in the driver itself, when the controller left no failure."""
    return classify_failure.classify_failure(translate_error(error, Group()))
