"""Ends an attempt, the single way out of the head.

The order is the point of this file. The outcome is written first, since the kubelet may kill this process at any time.
Then the last report, the storage's record and the ranks' last lines get their seconds, all at the same time. Ray's
processes are killed after them, and the archive of the logs is closed last, so that it has the very last line.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.history_format import JOURNAL, METRICS, Record
from railhead.contract.job_input import JobInput
from railhead.contract.outcome import MESSAGE_CHARS, Outcome, shorten_middle
from railhead.contract.report import Report, ReportedOutcome, State
from railhead.driver.archive.pod_archive import Archive
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.pod_processes import kill_child, kill_workers
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.rank_stream import LAST_LINES_OF_FAILURE_SECONDS, LAST_LINES_SECONDS, Ranks
from railhead.driver.head.run_recorder import RunRecorder
from railhead.driver.head.threads import start_thread
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import FromController
from railhead.driver.messages.log import log, never_raises
from railhead.driver.messages.redaction import redact
from railhead.driver.pod.ending import Ending, build_outcome, choose_exit_code, write_termination_message
from railhead.driver.storage.claims import Claim, check_claim, find_claim, leave_outcome
from railhead.driver.storage.history_records import hide, stamp
from railhead.driver.storage.history_segments import Segments, choose_spool
from railhead.driver.storage.run_folder_files import PrivateFolder, RunFolder, open_own_folder
from railhead.driver.train_controller.journal import explain_warning

LAST_REPORT_SECONDS = 2.0
# The operator may be away, and it trains again if it does not hear of a success.
LAST_REPORT_OF_SUCCESS_SECONDS = 60.0
# For the write to the storage: from the end of training on, and at least so long after a success is reported.
KEEP_SECONDS = 3.0
LAST_KEEP_SECONDS = 2.0
LOOK_SECONDS = 0.05

TERMINATED = Failure(
    FailureClass.PREEMPTION,
    "Terminated",
    "the head received SIGTERM; the run resumes from its last checkpoint",
)


@dataclass
class Head:
    """The parts of a running head that `end` needs.

    Attributes:
        recorder: keeps the run's record.
        ray: Ray's head, None before it is started.
        scripts: the process of the user's script, if the job has one.
        is_terminating: SIGTERM has arrived.
        is_ending: the head is about to kill Ray, so Ray's exit is not a failure.
    """

    pod: Pod
    job: JobInput
    mailbox: Mailbox
    publisher: Publisher
    ranks: Ranks
    archive: Archive
    recorder: RunRecorder
    ray: Optional[subprocess.Popen[bytes]] = None
    scripts: list[subprocess.Popen[bytes]] = field(default_factory=list)
    is_terminating: bool = False
    is_ending: bool = False


def end(head: Head, ending: Ending) -> NoReturn:
    """Tells the kubelet, the operator and the storage how the attempt ended, and exits with the outcome's exit code."""
    head.is_ending = True
    if is_premature(ending):
        # Before the newest checkpoint is read: training could commit another one.
        kill_training(head)
    fit = head.mailbox.read_newest_fit()
    outcome = build_outcome(ending, fit.progress, fit.restart)
    last = head.publisher.build_complete_report()
    outcome = replace(outcome, message=redact(outcome.message), warning=last.warning, spent=last.spent)
    # Early: the kubelet may kill this process at any time from here on, and the outcome is not lost then.
    write_termination_message(outcome.to_json(), head.pod.termination_message)

    _begin_last_report(head, outcome)
    keeping = start_thread(_keep_end, head, outcome)
    keep_until = time.monotonic() + KEEP_SECONDS
    if not is_premature(ending):
        _wait_for_last_lines(head, fit, outcome)
    report_seconds = 0.0
    keep_seconds = 0.0
    if outcome.has_succeeded:
        report_seconds = LAST_REPORT_OF_SUCCESS_SECONDS
        keep_seconds = LAST_KEEP_SECONDS
    _wait_for_last_report(head, report_seconds)
    keeping.join(max(keep_until - time.monotonic(), keep_seconds))

    _log_outcome(outcome)
    kill_training(head)
    head.archive.finish()
    # Ray's own shutdown takes seconds and saves nothing; its daemons die with this process.
    os._exit(choose_exit_code(ending))


def conclude(ending: Ending, *, is_terminating: bool) -> Ending:
    """Returns the ending that counts.

    After SIGTERM only a success counts: any failure may be how the training function reacted to the notice.
    """
    if is_terminating and isinstance(ending, Failure):
        return TERMINATED
    return ending


def is_premature(ending: Ending) -> bool:
    """Tells whether training may still be running, so that the head has to stop it."""
    return isinstance(ending, Failure) and ending.class_ in (FailureClass.PREEMPTION, FailureClass.HANG)


def kill_training(head: Head) -> None:
    """Kills the script and Ray's workers, if they are still there."""
    for script in head.scripts:
        kill_child(script)
    if head.ray is not None:
        kill_workers(head.ray)


def _begin_last_report(head: Head, outcome: Outcome) -> None:
    state: State = "ERRORED"
    if outcome.has_succeeded:
        state = "FINISHED"
    reported = ReportedOutcome(
        outcome.outcome,
        outcome.reason,
        shorten_middle(outcome.message, MESSAGE_CHARS),
        outcome.process_exit_code,
        outcome.suspect_pod,
    )

    def add_outcome(report: Report) -> Report:
        return replace(report, state=state, outcome=reported)

    head.publisher.update(add_outcome)
    head.publisher.begin_stop()


def _wait_for_last_lines(head: Head, fit: FromController, outcome: Outcome) -> None:
    """Waits until the ranks' last lines have passed through this process."""
    timeout = LAST_LINES_OF_FAILURE_SECONDS
    if outcome.has_succeeded:
        timeout = LAST_LINES_SECONDS
    head.ranks.wait_until_ended(fit.progress.processes, timeout=timeout)


def _wait_for_last_report(head: Head, seconds: float) -> None:
    """Waits for the operator's answer to the last report.

    SIGTERM cuts these seconds short, but not the last ones of them, which every report gets.
    """
    until = time.monotonic() + seconds - LAST_REPORT_SECONDS
    while time.monotonic() < until and not head.is_terminating:
        if head.publisher.has_stopped(LOOK_SECONDS):
            break
    head.publisher.wait_stopped(LAST_REPORT_SECONDS)


def _log_outcome(outcome: Outcome) -> None:
    if outcome.message:
        log(f"{outcome.outcome}: {outcome.message}")
    else:
        log(outcome.outcome)
    # os._exit flushes nothing.
    sys.stdout.flush()
    sys.stderr.flush()


def _keep_end(head: Head, outcome: Outcome) -> None:
    """Runs in its own thread, since a storage may hang."""
    _complete_run(head, outcome)
    with never_raises("keep the attempt's end in the run's record"):
        head.recorder.finish()
    if outcome.has_succeeded:
        head.archive.discard_after_success()


@never_raises("keep the attempt's end in the run's folder")
def _complete_run(head: Head, outcome: Outcome) -> None:
    """Leaves a success in the run's folder, and completes the run's history there."""
    pod = head.pod
    job = head.job
    spool = choose_spool(pod.temp)
    # An attempt that has not begun to train has no history, and its failure leaves nothing in the storage.
    has_history = spool.exists()
    if not (outcome.has_succeeded or has_history):
        return
    folder = open_own_folder(job.storage_path, job.run_name)
    claim = find_claim(folder, uid=job.uid, attempt=pod.attempt, pod=pod.uid)
    if claim is None:
        return
    if outcome.has_succeeded:
        leave_outcome(folder, claim, outcome)
    if has_history:
        complete_history(folder, claim, spool, outcome)


def complete_history(folder: RunFolder, claim: Claim, spool: Path, outcome: Outcome) -> None:
    """Adds the end of the attempt of the head with this claim, and writes what the storage lacks.

    Runs in the driver's own process: Ray Train's controller may be gone. Raises Fenced or JobRefused when another
    head has taken the run meanwhile, and what the storage raises.
    """
    journal = Segments(spool, JOURNAL, job=claim.uid, attempt=claim.attempt, pod=claim.pod)
    metrics = Segments(spool, METRICS, job=claim.uid, attempt=claim.attempt, pod=claim.pod)
    journal.append({**stamp(claim.attempt), **hide(describe_end(outcome))})
    for segments in (journal, metrics):
        segments.upload(PrivateFolder(folder, segments.kind, functools.partial(check_claim, folder, claim)))


def describe_end(outcome: Outcome) -> Record:
    return {"event": "end", "outcome": outcome.outcome, **explain_warning(outcome)}
