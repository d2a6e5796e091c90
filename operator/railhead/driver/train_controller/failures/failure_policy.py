"""Our failure policy inside Ray Train's controller: collects the facts of a failure, and decides with
`classify_failure`.

`ray.controller_parts` puts it in the place of Ray's.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Mapping, Optional, Sequence

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.outcome import MESSAGE_CHARS, shorten_middle
from railhead.contract.report import MAX_LOST_PODS, STORAGE_TROUBLES, RestartInPlace
from railhead.contract.times import now_text
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox, MailboxFile, open_mailbox
from railhead.driver.mailbox.values import FromController
from railhead.driver.messages.log import log
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.messages.redaction import redact
from railhead.driver.rank.run_rank import read_end
from railhead.driver.ray.controller_parts import Retries
from railhead.driver.ray.nodes import (
    LostNode,
    confirm_lost,
    count_worker_slots,
    mark_dead_in_ray,
    wait_for_lost_nodes,
)
from railhead.driver.ray.types import Metadata
from railhead.driver.train_controller.failures import classify_failure
from railhead.driver.train_controller.failures.classify_failure import (
    FailureFacts,
    FailureOrigin,
    RankError,
    RestartHistory,
)
from railhead.driver.train_controller.failures.post_mortem import explain_deaths
from railhead.driver.train_controller.failures.ray_exceptions import list_class_names, translate_error
from railhead.driver.train_controller.fence_step import warn
from railhead.driver.train_controller.worker_group import Group, call_ranks, get_group

AGE_TIMEOUT_SECONDS = 3.0


def make_retries(max_failures: int, *, default: Optional[int]) -> Retries:
    """Returns what decides after each failure of the fit() that begins.

    `default` applies where the trainer's FailureConfig has Ray's default of 0; None = no limit of its own.
    """
    run = RunContext.read()
    return RetryDecider(get_group(run.run_uri), open_mailbox(fit=run.fit), max_failures=max_failures or default).decide


class RetryDecider:
    """Counts and decides; one per fit(). Safe to count, as in Ray's own policy: Ray asks once per failure."""

    def __init__(self, group: Group, mailbox: Mailbox, *, max_failures: Optional[int]) -> None:
        self._group = group
        self._mailbox = mailbox
        self._max_failures = max_failures
        self._history = RestartHistory(max_failures=max_failures)
        self._last: tuple[str, str] = ("", "")
        self._commits = 0

    def decide(self, error: BaseException) -> bool:
        """Returns whether to retry. A failure that ends the run goes into the mailbox, for the driver."""
        facts = collect_facts(error, self._group)
        box = self._mailbox.controller
        if facts.lost_pods:
            box.change(partial(replace, lost_pods=facts.lost_pods[:MAX_LOST_PODS]))
        found = classify_failure.classify_failure(facts)
        found = replace(found, message=redact(found.message))
        if found.class_ is FailureClass.INFRASTRUCTURE and found.reason in STORAGE_TROUBLES:
            warn(box, found.reason, f"{found.message}; training restarts from the last checkpoint")
        before = box.read().restart or RestartInPlace(number=0, charged=0)
        driver = self._mailbox.driver.read()
        self._count(facts, found, charged=before.charged, allowed=driver.count_allowed_restarts(found))
        is_retry = driver.end is None and classify_failure.decide_retry(facts, found, self._history)
        if not is_retry:
            box.change(partial(replace, failure=found))
        elif not facts.is_explained and facts.source != FailureOrigin.STARTUP:
            charged = before.charged + (not classify_failure.is_infrastructure(facts, found))
            text = shorten_middle(found.message, MESSAGE_CHARS)
            restart = RestartInPlace(
                before.number + 1, charged, found.class_.value, found.reason, text, found.suspect_pod, now_text()
            )
            box.change(lambda value: value.with_restart(restart))
            if classify_failure.is_of_broken_gpu(found):
                _give_up_pods((found.suspect_pod, *facts.lost_pods), box, self._group)
        what = "restarting the worker group" if is_retry else "the run ends"
        # The user's callbacks run in this process and share its streams.
        with contextlib.suppress(Exception):
            log(f"{found.class_}: {found.message}; {what}")
        return is_retry

    def _count(self, facts: FailureFacts, found: Failure, *, charged: int, allowed: Optional[int]) -> None:
        last = (found.class_.value, found.reason)
        commits = self._group.commits
        before = self._history if commits == self._commits else RestartHistory()
        is_unexplained = classify_failure.is_infrastructure(facts, found) and not facts.is_explained
        unexplained = 0
        if is_unexplained:
            unexplained = before.unexplained + 1
        same = 1
        if last == self._last and commits == self._commits:
            same = before.same + 1
        self._history = RestartHistory(
            unexplained=unexplained,
            # Not of `before`: a group that commits and hangs again and again must get new pods too.
            hangs=self._history.hangs + (found.class_ is FailureClass.HANG),
            same=same,
            charged=charged,
            allowed=allowed,
            max_failures=self._max_failures,
        )
        self._last = last
        self._commits = commits


def collect_facts(error: BaseException, group: Group) -> FailureFacts:
    """Returns Ray's exception and the state of the group's nodes as facts. The next group uses the live ones."""
    facts = name_path(translate_error(error, group), group)
    wanted = _find_awaited_workers(error)
    slots = count_worker_slots() if wanted else 0
    if slots < wanted:
        text = f"waiting for worker pods: those that have joined have room for {slots} of {wanted} workers"
        return replace(facts, text=text, is_waiting=True)
    if facts.refusal or any(
        rank.kind in (RankErrorKind.UNUSABLE, RankErrorKind.MISSING, RankErrorKind.UNFENCED) for rank in facts.errors
    ):
        return facts
    processes = group.read_processes()
    lost = wait_for_lost_nodes(process.node_id for process in processes.values())
    # The failure is put down to a node that misses one probe; only after a second one does it lose its pod.
    confirmed = confirm_lost(lost)
    mark_dead_in_ray(confirmed)
    pods = tuple(node.host for node in confirmed if node.host)
    errors = add_pods(facts.errors, processes)
    # A lost node explains the errors on all others.
    if not lost:
        errors, finding = explain_deaths(add_ages(errors, group), processes, group)
        if finding:
            if finding.is_clear:
                odd_pods = {processes[rank].hostname for rank in finding.ranks}
            else:
                odd_pods = set()
            odd_pod = odd_pods.pop() if len(odd_pods) == 1 else ""
            facts = replace(facts, difference=finding.message, odd_pod=odd_pod)
    return replace(facts, errors=errors, lost_nodes=tuple(node.address for node in lost), lost_pods=pods)


def _give_up_pods(pods: Sequence[str], box: MailboxFile[FromController], group: Group) -> None:
    """Has the operator, which knows the reason by then, replace them; no rank of the next group runs there."""
    box.change(partial(replace, lost_pods=tuple(pods)[:MAX_LOST_PODS]))
    nodes = {each.node_id: each for each in group.read_processes().values() if each.hostname in pods}
    mark_dead_in_ray(LostNode(node, each.node_ip, is_known=False, host=each.hostname) for node, each in nodes.items())


def _find_awaited_workers(error: BaseException) -> int:
    """Returns the size of the group whose start timed out, else 0."""
    inner = getattr(error, "controller_failure", error)
    is_timeout = "WorkerGroupStartupTimeoutError" in list_class_names(inner)
    if is_timeout:
        return int(getattr(inner, "num_workers", 0))
    return 0


def add_ages(errors: tuple[RankError, ...], group: Group) -> tuple[RankError, ...]:
    """Returns the errors with their ages, of ranks whose processes still live: the first is likely to be the cause."""
    ages: dict[int, float] = {}
    # The group is not active.
    with contextlib.suppress(Exception):
        ranks = [each.rank for each in errors if each.kind not in (RankErrorKind.DIED, RankErrorKind.KILLED_FOR_MEMORY)]
        workers = group.worker_group
        if workers is not None:
            answers = call_ranks(workers, ranks, read_end, timeout=AGE_TIMEOUT_SECONDS)
        else:
            answers = {}
        ages = {rank: answer.value.age for rank, answer in answers.items() if answer.value}
    return tuple(replace(each, age=ages.get(each.rank)) for each in errors)


def name_path(facts: FailureFacts, group: Group) -> FailureFacts:
    """Returns the facts with the run's path, which errors of its storage rarely name."""
    folder = group.folder
    if folder is None:
        return facts
    errors = tuple(
        replace(each, text=f"{folder.path}: {each.text}") if each.kind == RankErrorKind.STORAGE else each
        for each in facts.errors
    )
    return replace(facts, errors=errors)


def add_pods(errors: tuple[RankError, ...], processes: Mapping[int, Metadata]) -> tuple[RankError, ...]:
    """Returns the errors with the pods of their ranks."""
    return tuple(
        replace(each, pod=processes[each.rank].hostname) if each.rank in processes else each for each in errors
    )
