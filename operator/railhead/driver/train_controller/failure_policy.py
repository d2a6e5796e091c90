"""Our failure policy inside Ray Train's controller: translates its exceptions, decides with `failure`.

`ray.controller` puts it in the place of Ray's.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from dataclasses import replace
from typing import Mapping, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.outcome import MESSAGE_CHARS, shorten_middle
from railhead.contract.report import MAX_LOST_PODS, STORAGE_TROUBLES, RestartInPlace
from railhead.contract.text import now_text
from railhead.driver.describe import clean, describe_exception, log, read_text
from railhead.driver.errors import (
    AttemptFailed,
    JobRefused,
    Kind,
    TrainingError,
    read_note,
)
from railhead.driver.rank.run import read_end
from railhead.driver.ray.controller import Retries
from railhead.driver.ray.nodes import (
    LostNode,
    confirm_lost,
    count_worker_slots,
    mark_dead_in_ray,
    wait_for_lost_nodes,
)
from railhead.driver.ray.types import Metadata
from railhead.driver.reporting.mailbox import Box, FromController, Mailbox, open_mailbox
from railhead.driver.run_context import RunContext
from railhead.driver.train_controller import failure
from railhead.driver.train_controller.evidence import find_kind
from railhead.driver.train_controller.failure import FailureFacts, History, RankError, Source
from railhead.driver.train_controller.fence import warn
from railhead.driver.train_controller.group import Group, call_ranks, find_group
from railhead.driver.train_controller.post_mortem import find_causes

# Ray's own actors, which run no user code: they synchronize `report` and other collectives, and serve
# the shards of a dataset. Older Rays may start a new group's on a node that is lost but not yet
# known to be; and any process may crash. The function sees it as an error of what it called.
_RAYS_ACTORS = ("SynchronizationActor", "SplitCoordinator", "DatasetManager", "_AutoscalingCoordinatorActor")
_ACTOR_ERRORS = ("ray.exceptions.ActorDiedError", "ray.exceptions.ActorUnavailableError")
_CLASS_OF_ACTOR = re.compile(rf"class_name: (?:{'|'.join(_RAYS_ACTORS)})\b")
# Methods of Ray's callbacks that handle the reports of all ranks, and the results of validations.
_ON_REPORT = {"after_report", "update_checkpoints_with_validation_result", "update_checkpoints_with_metrics"}
AGE_TIMEOUT_SECONDS = 3.0
_IN_FRAMEWORK = re.compile(r"/ray/train/\w+/__init__\.py.*, in <module>")
_MEMORY_PHRASES = ("running low on memory", "memory monitor", "memory usage threshold")


def make_retries(max_failures: int, *, default: Optional[int]) -> Retries:
    """Returns what decides after each failure of the fit() that begins.

    `default` applies where the trainer's FailureConfig has Ray's default of 0; None = no limit of its own.
    """
    run = RunContext.read()
    return RetryDecider(find_group(run.run_uri), open_mailbox(fit=run.fit), max_failures=max_failures or default).decide


class RetryDecider:
    """Counts and decides; one per fit(). Safe to count, as in Ray's own policy: Ray asks once per failure."""

    def __init__(self, group: Group, mailbox: Mailbox, *, max_failures: Optional[int]) -> None:
        self._group = group
        self._mailbox = mailbox
        self._max_failures = max_failures
        self._history = History(max_failures=max_failures)
        self._last: tuple[str, str] = ("", "")
        self._commits = 0

    def decide(self, error: BaseException) -> bool:
        """Whether to retry. A failure that ends the run goes into the mailbox, for the driver."""
        facts, box = collect_facts(error, self._group), self._mailbox.controller
        if facts.lost_pods:
            box.change(lambda value: replace(value, lost_pods=facts.lost_pods[:MAX_LOST_PODS]))
        found = failure.classify_failure(facts)
        found = replace(found, message=clean(found.message))
        if found.class_ is FailureClass.INFRASTRUCTURE and found.reason in STORAGE_TROUBLES:
            warn(box, found.reason, f"{found.message}; training restarts from the last checkpoint")
        before = box.read().restart or RestartInPlace(number=0, charged=0)
        driver = self._mailbox.driver.read()
        self._count(facts, found, charged=before.charged, allowed=driver.count_allowed_restarts(found))
        is_retry = driver.end is None and failure.decide_retry(facts, found, self._history)
        if not is_retry:
            box.change(lambda value: replace(value, failure=found))
        elif not facts.is_explained and facts.source != Source.STARTUP:
            charged = before.charged + (not failure.is_infrastructure(facts, found))
            text = shorten_middle(found.message, MESSAGE_CHARS)
            restart = RestartInPlace(
                before.number + 1, charged, found.class_.value, found.reason, text, found.suspect_pod, now_text()
            )
            box.change(lambda value: value.with_restart(restart))
            if failure.is_of_broken_gpu(found):
                _give_up_pod(found.suspect_pod, box, self._group)
        what = "restarting the worker group" if is_retry else "the run ends"
        with contextlib.suppress(Exception):  # the user's callbacks run in this process and share its streams
            log(f"{found.class_}: {found.message}; {what}")
        return is_retry

    def _count(self, facts: FailureFacts, found: Failure, *, charged: int, allowed: Optional[int]) -> None:
        last, commits = (found.class_.value, found.reason), self._group.commits
        before = self._history if commits == self._commits else History()
        is_unexplained = failure.is_infrastructure(facts, found) and not facts.is_explained
        self._history = History(
            unexplained=before.unexplained + 1 if is_unexplained else 0,
            hangs=self._history.hangs + (found.class_ is FailureClass.HANG),
            same=before.same + 1 if last == self._last and commits == self._commits else 1,
            charged=charged,
            allowed=allowed,
            max_failures=self._max_failures,
        )
        self._last, self._commits = last, commits


def collect_facts(error: BaseException, group: Group) -> FailureFacts:
    """Ray's exception and the current state of the group's nodes, as facts. The next group uses the live ones."""
    facts = name_path(translate_error(error, group), group)
    wanted = _find_awaited_workers(error)
    slots = count_worker_slots() if wanted else 0
    if slots < wanted:
        text = f"waiting for worker pods: those that have joined have room for {slots} of {wanted} workers"
        return replace(facts, text=text, is_waiting=True)
    if facts.refusal or any(rank.kind in (Kind.UNUSABLE, Kind.MISSING, Kind.UNFENCED) for rank in facts.errors):
        return facts
    processes = group.read_processes()
    lost = wait_for_lost_nodes(process.node_id for process in processes.values())
    confirmed = confirm_lost(lost)
    mark_dead_in_ray(confirmed)
    pods = tuple(node.host for node in confirmed if node.host)
    errors = find_pods(facts.errors, processes)
    if not lost:
        errors, finding = find_causes(find_ages(errors, group), processes, group)
        if finding:
            odd_pods = {processes[rank].hostname for rank in finding.ranks} if finding.is_clear else set()
            odd_pod = odd_pods.pop() if len(odd_pods) == 1 else ""
            facts = replace(facts, difference=finding.message, odd_pod=odd_pod)
    return replace(facts, errors=errors, lost_nodes=tuple(node.address for node in lost), lost_pods=pods)


def _give_up_pod(pod: str, box: Box[FromController], group: Group) -> None:
    """The operator, which knows the reason by then, replaces the pod, and no rank of the next group runs there."""
    box.change(lambda value: replace(value, lost_pods=(pod,)))
    nodes = {each.node_id: each.node_ip for each in group.read_processes().values() if each.hostname == pod}
    mark_dead_in_ray(LostNode(node, address, is_known=False, host=pod) for node, address in nodes.items())


def _find_awaited_workers(error: BaseException) -> int:
    """The size of the group whose start timed out, else 0."""
    inner = getattr(error, "controller_failure", error)
    is_timeout = "WorkerGroupStartupTimeoutError" in _class_names(inner)
    return int(getattr(inner, "num_workers", 0)) if is_timeout else 0


def find_ages(errors: tuple[RankError, ...], group: Group) -> tuple[RankError, ...]:
    """The errors with their ages, as far as the ranks' processes still live: the first is likely to be the cause."""
    ages: dict[int, float] = {}
    with contextlib.suppress(Exception):  # the group is not active
        ranks = [each.rank for each in errors if each.kind not in (Kind.DIED, Kind.KILLED_FOR_MEMORY)]
        workers = group.worker_group
        answers = call_ranks(workers, ranks, read_end, timeout=AGE_TIMEOUT_SECONDS) if workers is not None else {}
        ages = {rank: answer.value.age for rank, answer in answers.items() if answer.value}
    return tuple(replace(each, age=ages.get(each.rank)) for each in errors)


def name_path(facts: FailureFacts, group: Group) -> FailureFacts:
    """The facts with the run's path, which errors of its storage rarely name."""
    folder = group.folder
    if folder is None:
        return facts
    errors = tuple(
        replace(each, text=f"{folder.path}: {each.text}") if each.kind == Kind.STORAGE else each
        for each in facts.errors
    )
    return replace(facts, errors=errors)


def find_pods(errors: tuple[RankError, ...], processes: Mapping[int, Metadata]) -> tuple[RankError, ...]:
    """The errors with the pods of their ranks."""
    return tuple(
        replace(each, pod=processes[each.rank].hostname) if each.rank in processes else each for each in errors
    )


def translate_error(error: BaseException, group: Group) -> FailureFacts:
    """By class names, which are the same in all Ray versions that we support."""
    names = _class_names(error)
    if "NCCLHangError" in names:  # Ray's own detector; it names no rank
        return FailureFacts(Source.WORKERS, (RankError(-1, Kind.UNANSWERED, _cut(error)),))
    failures = getattr(error, "worker_failures", None)
    if failures is not None:
        errors = tuple(translate_rank_error(rank, each, group) for rank, each in sorted(failures.items()))
        return FailureFacts(Source.WORKERS, errors, text=_cut(error))
    if "PreemptionError" in names:
        return FailureFacts(Source.WORKERS, (RankError(-1, Kind.PREEMPTED, _cut(error)),))
    if _is_memory(error):  # Ray's monitor killed the controller: the head pod is too small
        text = f"the head pod ran out of memory (spec.head.resources): {_begin(error)}"
        return FailureFacts(Source.CONTROLLER, (RankError(-1, Kind.KILLED_FOR_MEMORY, text),))
    inner = getattr(error, "controller_failure", error)
    if isinstance(inner, AttemptFailed):
        refusal = inner.failure
        is_passing = refusal.class_ in (FailureClass.INFRASTRUCTURE, FailureClass.HARDWARE)
        source = Source.WORKERS if is_passing else Source.CONTROLLER
        return FailureFacts(source, text=refusal.message, refusal=refusal)
    if inner is error:
        return FailureFacts(Source.CONTROLLER, text=_cut(error))
    if isinstance(inner, OSError) and "RayError" not in _class_names(inner):
        # The fence or Ray's snapshot; the controller opens no other files. A folder that is missing is a mount that is.
        return FailureFacts(Source.WORKERS, (RankError(-1, Kind.STORAGE, describe_exception(inner)),))
    if _is_memory(inner):  # what Ray Train runs on the workers' nodes before train_func
        return FailureFacts(Source.WORKERS, (RankError(-1, Kind.KILLED_FOR_MEMORY, _begin(inner)),))
    if "RuntimeEnvSetupError" in _class_names(inner):
        text = f"spec.runtimeEnv: Ray cannot set it up: {_without_traceback(inner)}"
        return FailureFacts(Source.STARTUP, text=text, refusal=JobRefused("RuntimeEnvNotUsable", text).failure)
    if {"WorkerGroupStartupFailedError", "WorkerGroupStartupTimeoutError"} & _class_names(inner):
        return FailureFacts(Source.STARTUP, text=_cut(inner))
    if _is_actor_error(inner):
        # An actor of the group that died during a call from the controller.
        return FailureFacts(Source.WORKERS, (translate_rank_error(-1, inner, group),), text=_cut(inner))
    if "RayTaskError" in _class_names(inner):
        return _translate_set_up_error(inner, group)
    if _is_of_report(inner):
        text = f"Ray Train's controller does not accept what the ranks have reported: {describe_exception(inner)}"
        return FailureFacts(Source.WORKERS, (RankError(-1, Kind.RAISED, text),))
    return FailureFacts(Source.CONTROLLER, text=f"{type(inner).__name__}: {_cut(inner)}")


def _is_of_report(error: BaseException) -> bool:
    """Whether Ray raised it while it handled a report, such as one in which the ranks name different checkpoints.

    The same function would report the same again. None of Railhead's own steps raises there.
    """
    return bool(_ON_REPORT & {frame.name for frame in traceback.extract_tb(error.__traceback__)})


def _translate_set_up_error(error: BaseException, group: Group) -> FailureFacts:
    """Of Ray's backend on a rank, such as a process group that does not form.

    A framework that the workers' image lacks appears here: Ray imports it to set up its backend, or to read what that
    is called with.
    """
    if "ImportError" in _class_names(error) or _IN_FRAMEWORK.search(read_text(error)):
        text = f"spec.image: the workers cannot import the trainer's framework ({_last_line(error)}); fix the image"
        return FailureFacts(Source.WORKERS, (RankError(-1, Kind.MISSING, text),))
    text = describe_exception(error)
    # Rank 0 says it of the others.
    rank = -1 if "clients joined" in text else group.find_rank(read_text(error))
    kind = find_kind(text, has_trained=group.has_trained(rank))
    text = f"the workers could not be set up: {text}"
    return FailureFacts(Source.WORKERS, (RankError(rank, kind, text),) if kind else (), text=text)


def translate_rank_error(rank: int, error: BaseException, group: Group) -> RankError:
    error = read_note(error) or error
    if isinstance(error, TrainingError):
        kind = error.kind
        if error.text.startswith("ray.exceptions.") and any(phrase in error.text for phrase in _MEMORY_PHRASES):
            kind = Kind.KILLED_FOR_MEMORY  # a task or an actor of Ray Data that the function waited for
        elif error.text.startswith(_ACTOR_ERRORS) and _CLASS_OF_ACTOR.search(error.text):
            kind = Kind.ABANDONED
        elif kind == Kind.RAISED:
            kind = find_kind(error.text, has_trained=group.has_trained(rank)) or kind
        return RankError(
            error.rank if kind in failure.FOUND_BY_DRIVER else rank, kind, error.text, exit_code=error.exit_code
        )
    cause: BaseException = getattr(error, "health_check_failure", None) or error
    if getattr(cause, "preempted", False):
        return RankError(rank, Kind.PREEMPTED, _cut(cause))
    if _is_memory(cause):
        return RankError(rank, Kind.KILLED_FOR_MEMORY, _begin(cause))
    if _is_actor_error(cause) or "WorkerHealthCheckTimeoutError" in _class_names(cause):
        return RankError(rank, Kind.DIED, _cut(cause))
    # What train_func raises, and what the storage does not take, is a TrainingError or has our note. So this one is of
    # an upload in a thread of Ray Train's, such as of the user's own checkpoint_upload_fn.
    return RankError(rank, Kind.RAISED, describe_exception(cause))


def _is_actor_error(error: BaseException) -> bool:
    return bool({"RayActorError", "ActorDiedError", "ActorUnavailableError"} & _class_names(error))


def _is_memory(error: BaseException) -> bool:
    """Killed by Ray's memory monitor. Ray's advice for any dead process mentions memory too."""
    if "OutOfMemoryError" in _class_names(error):
        return not isinstance(error, TrainingError)
    return _is_actor_error(error) and any(phrase in read_text(error) for phrase in _MEMORY_PHRASES)


def _begin(error: BaseException) -> str:
    """For texts that end with advice."""
    return " ".join(read_text(error).split())[:400]


def _class_names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _cut(error: BaseException) -> str:
    return shorten_middle(" ".join(read_text(error).split()), 600)


def _without_traceback(error: BaseException) -> str:
    """Starts at the last exception named in the tracebacks; a subprocess's output follows it."""
    text = read_text(error)
    found = [match.start() for match in re.finditer(r"^[\w.]*(Error|Exception)\b", text, re.MULTILINE)]
    message = " ".join(text[found[-1] if found else 0 :].split())
    return shorten_middle(message, 1200)


def _last_line(error: BaseException) -> str:
    lines = [line for line in read_text(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def build_failure(error: BaseException) -> Failure:
    """The driver's own classification of what fit() raised, when the controller left none."""
    return failure.classify_failure(translate_error(error, Group()))
