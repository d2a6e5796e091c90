"""Ends an attempt, the single way out of the head: outcome, last report, Ray's processes, exit code, in this order."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Callable, NoReturn, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.history_format import JOURNAL, METRICS, Record
from railhead.contract.job_input import JobInput
from railhead.contract.outcome import MESSAGE_CHARS, Outcome, shorten_middle
from railhead.contract.report import ReportedOutcome, State
from railhead.driver.archive.pod_archive import Archive
from railhead.driver.container.pod_input import Pod, find_storage_path
from railhead.driver.container.pod_processes import kill_child, kill_workers
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.rank_stream import LAST_LINES_OF_FAILURE_SECONDS, LAST_LINES_SECONDS, Ranks
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.log import log, never_raises
from railhead.driver.messages.redaction import redact
from railhead.driver.pod.ending import Ending, build_outcome, find_exit_code, write_termination_message
from railhead.driver.storage.claims import Claim, check_claim, find_claim, leave_outcome
from railhead.driver.storage.history_records import hide, stamp
from railhead.driver.storage.history_segments import Segments, find_spool
from railhead.driver.storage.run_folder_files import PrivateFolder, RunFolder, open_own_folder
from railhead.driver.train_controller.journal import explain_warning

LAST_REPORT_SECONDS = 2.0
# for the storage, from the end of training, and after a success is reported
KEEP_SECONDS = 3.0
LAST_KEEP_SECONDS = 2.0
LAST_REPORT_OF_SUCCESS_SECONDS = 60.0  # the operator may be away, and trains again if it does not hear of a success


TERMINATED = Failure(
    FailureClass.PREEMPTION,
    "Terminated",
    "the head received SIGTERM; the run resumes from its last checkpoint",
)


@dataclass
class Head:
    """Returns what `end` needs from the startup."""

    pod: Pod
    job: JobInput
    mailbox: Mailbox
    publisher: Publisher
    ranks: Ranks
    archive: Archive
    ray: Optional[subprocess.Popen[bytes]] = None
    scripts: list[subprocess.Popen[bytes]] = field(default_factory=list)
    is_terminating: bool = False  # SIGTERM has arrived
    is_ending: bool = False


def end(head: Head, ending: Ending) -> NoReturn:
    """The single way out. Writes the termination message early: nothing is lost if we are killed half-way."""
    head.is_ending = True
    if is_premature(ending):
        kill_training(head)  # before reading the last checkpoint, since training could commit another one
    fit = head.mailbox.read_newest_fit()
    outcome = build_outcome(ending, fit.progress, fit.restart)
    outcome = replace(outcome, message=redact(outcome.message))
    write_termination_message(outcome.to_json(), head.pod.termination_message)
    reported = ReportedOutcome(
        outcome.outcome,
        outcome.reason,
        shorten_middle(outcome.message, MESSAGE_CHARS),
        outcome.process_exit_code,
        outcome.suspect_pod,
    )
    state: State = "FINISHED" if outcome.has_succeeded else "ERRORED"
    head.publisher.update(partial(replace, state=state, outcome=reported))
    head.publisher.begin_stop()
    keeping = start_thread(_keep_end, head, outcome)
    keep_until = time.monotonic() + KEEP_SECONDS
    if not is_premature(ending):
        if outcome.has_succeeded:
            timeout = LAST_LINES_SECONDS
        else:
            timeout = LAST_LINES_OF_FAILURE_SECONDS
        head.ranks.wait_until_ended(fit.progress.processes, timeout=timeout)
    _wait_for_last_report(head, LAST_REPORT_OF_SUCCESS_SECONDS if outcome.has_succeeded else 0.0)
    keeping.join(max(keep_until - time.monotonic(), LAST_KEEP_SECONDS if outcome.has_succeeded else 0.0))
    log(f"{outcome.outcome}: {outcome.message}" if outcome.message else outcome.outcome)
    sys.stdout.flush()
    sys.stderr.flush()
    kill_training(head)
    head.archive.finish()
    os._exit(find_exit_code(ending))  # Ray's own shutdown takes seconds and saves nothing; its daemons die with us


def _wait_for_last_report(head: Head, seconds: float) -> None:
    """A SIGTERM cuts these seconds short; the last ones belong to every report."""
    until = time.monotonic() + seconds - LAST_REPORT_SECONDS
    while time.monotonic() < until and not head.is_terminating and not head.publisher.has_stopped(0.05):
        pass
    head.publisher.wait_stopped(LAST_REPORT_SECONDS)


def _keep_end(head: Head, outcome: Outcome) -> None:
    _complete_run(head, outcome)
    if outcome.has_succeeded:
        head.archive.keep_no_success()


@never_raises("keep the attempt's end in the run's folder")
def _complete_run(head: Head, outcome: Outcome) -> None:
    """Leaves a success there, and completes the run's history, which an attempt that has not begun to train lacks."""
    pod = head.pod
    job = head.job
    spool = find_spool(head.pod.temp)
    if not (outcome.has_succeeded or spool.exists()):
        return
    folder = open_own_folder(find_storage_path(pod, job), job.run_name)
    claim = find_claim(folder, uid=job.uid, attempt=pod.attempt, pod=pod.uid)
    if claim is not None and outcome.has_succeeded:
        leave_outcome(folder, claim, outcome)
    if claim is not None and spool.exists():
        complete_history(folder, claim, spool, outcome)


def kill_training(head: Head) -> None:
    for script in head.scripts:
        kill_child(script)
    if head.ray is not None:
        kill_workers(head.ray)


def start_thread(target: Callable[..., object], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def conclude(ending: Ending, *, is_terminating: bool) -> Ending:
    """Lets only a success count after SIGTERM. Any failure may be how the training function reacted to the notice."""
    if is_terminating and isinstance(ending, Failure):
        return TERMINATED
    return ending


def is_premature(ending: Ending) -> bool:
    """Training may still be running; the driver has to stop it."""
    return isinstance(ending, Failure) and ending.class_ in (FailureClass.PREEMPTION, FailureClass.HANG)


def complete_history(folder: RunFolder, claim: Claim, spool: Path, outcome: Outcome) -> None:
    """Adds the end of the attempt of the head with this claim, and writes what the storage lacks.

    Runs in the driver's own process: Ray Train's controller may be gone. Raises Fenced or JobRefused when the run is
    another's by now, and what the storage raises.
    """
    job = claim.uid
    attempt = claim.attempt
    journal, metrics = (Segments(spool, kind, job=job, attempt=attempt, pod=claim.pod) for kind in (JOURNAL, METRICS))
    journal.append({**stamp(attempt), **hide(describe_end(outcome))})
    for segments in (journal, metrics):
        segments.upload(PrivateFolder(folder, segments.kind, functools.partial(check_claim, folder, claim)))


def describe_end(outcome: Outcome) -> Record:
    return {"event": "end", "outcome": outcome.outcome, **explain_warning(outcome)}
