"""The head pod: Ray's head as a child process, training in a thread, and a single way out.

The main thread waits for the first of three events: training ends, Ray's head exits, or SIGTERM
arrives, after which the driver notifies all ranks and waits for one more commit, so that no training is lost. Only
that of a report that began after the ranks were notified has the latest state: an upload in the background, or a
commit, may end late. The main thread then writes the termination message, waits briefly for the last log lines and
the last report, kills Ray, and exits with the outcome's exit code.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Callable, Mapping, NoReturn, Optional

from railhead.contract.answer import Answer
from railhead.contract.environment import HOSTS_FILE
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import CA_KEY, JobInput
from railhead.contract.outcome import MESSAGE_CHARS, Outcome, shorten_middle
from railhead.contract.report import Report, ReportedOutcome, State
from railhead.driver.archive.archive import Archive, start_archive
from railhead.driver.archive.layout import HEAD
from railhead.driver.describe import clean, describe_exit, log, never_raises
from railhead.driver.ending import (
    TERMINATED,
    Ending,
    build_outcome,
    conclude,
    find_exit_code,
    is_premature,
    write_termination_message,
)
from railhead.driver.hang_detection import watch_for_hang
from railhead.driver.logs import (
    LAST_LINES_OF_FAILURE_SECONDS,
    LAST_LINES_SECONDS,
    TRAIN_LOGS,
    WORKER_LOGS,
    Ranks,
    RankStream,
    keep_small,
)
from railhead.driver.node.hosts import write_address
from railhead.driver.node.machine import kill_child, kill_workers, read_end, start_child
from railhead.driver.node.ray_node import (
    build_head_command,
    build_ray_environment,
    drop_unsupported_defaults,
    explain_ray_problem,
    plan_hang_detector,
)
from railhead.driver.pod import Pod, find_storage_path, read_working_folder
from railhead.driver.reporting.estimate import MetricReader, RunEstimate
from railhead.driver.reporting.job_metrics import write_job_metrics
from railhead.driver.reporting.mailbox import Mailbox
from railhead.driver.reporting.metrics_server import MetricsServer
from railhead.driver.reporting.progress import Progress
from railhead.driver.reporting.publisher import Endpoint, Publisher
from railhead.driver.storage.fence import find_claim, leave_outcome
from railhead.driver.storage.run_folder import open_own_folder
from railhead.driver.storage.segments import complete_history, find_spool
from railhead.driver.training import Attempt, run_training
from railhead.driver.versions import find_version

LOOK_SECONDS = 0.1
LAST_REPORT_SECONDS = 2.0
KEEP_SECONDS, LAST_KEEP_SECONDS = 3.0, 2.0  # for the storage, from the end of training, and after a success is reported
LAST_REPORT_OF_SUCCESS_SECONDS = 60.0  # the operator may be away, and trains again if it does not hear of a success
RAY_LOG = "ray-start.log"
# States that are worth waiting: training, or finishing, which has its own outcome. In others there is nothing to save.
_WORTH_WAITING = ("RUNNING", "FINISHED")
RAY_LOG_LINES = 1000  # Ray names the process that ended above up to 200 lines of the log of each


@dataclass
class Head:
    """What `end` needs from the startup."""

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


def run_head(environment: Mapping[str, str]) -> NoReturn:
    pod = Pod.from_environment(environment)
    job = drop_unsupported_defaults(find_version(), pod.read_job())
    pod.temp.mkdir(parents=True, exist_ok=True)
    archive = start_archive(HEAD, pod, job, environment)
    _change_environment(build_ray_environment(environment, job=job, pod=pod, folder=read_working_folder()))
    for name, value in plan_hang_detector(job, client=shutil.which("ncclras")).items():
        os.environ.setdefault(name, value)
    mailbox, ranks = Mailbox(pod.temp), _watch_output(job.forward_logs, archive)
    head = Head(pod, job, mailbox, _build_publisher(pod, job, mailbox), ranks, archive)
    endings: queue.SimpleQueue[Ending] = queue.SimpleQueue()
    signals: queue.SimpleQueue[bool] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: receive_sigterm(signals))
    _start_thread(_end_on_sigterm, head, signals, endings)
    _serve_metrics(head)
    problem = explain_ray_problem(find_version(), job)
    if problem:
        head.publisher.start()
        end(head, Failure(FailureClass.CONFIGURATION, "RayTooOld", problem))
    log(f"starting Ray's head at {write_address(pod.ip, pod.head_port)}")
    head.ray = start_child(build_head_command(pod, job), environment=os.environ, log=pod.temp / RAY_LOG)
    head.publisher.start()
    _start_thread(_watch_ray, head, head.ray, endings)
    _start_thread(_train, head, endings)
    _start_thread(watch_for_hang, mailbox, head.publisher, endings.put)
    _start_thread(keep_small, pod.temp, TRAIN_LOGS, WORKER_LOGS)
    ending = endings.get()
    end(head, conclude(ending, is_terminating=head.is_terminating))


def _change_environment(wanted: Mapping[str, str]) -> None:
    """Gives this process and those that it starts the environment of Ray's processes."""
    removed = sorted(os.environ.keys() - wanted.keys())
    for name in removed:
        del os.environ[name]
    if removed:
        log(f"ignoring {', '.join(removed)} of spec.image, spec.env or spec.envFrom: Railhead decides what they change")
    os.environ.update(wanted)


def _serve_metrics(head: Head) -> None:
    """Call before Ray starts: its processes take free ports. If the port is taken, the job trains without metrics."""
    port = head.pod.metrics_port
    if port is None:
        return
    try:
        MetricsServer(head.pod.ip, port, lambda: write_job_metrics(head.publisher, head.mailbox)).start()
    except OSError as error:
        log(f"cannot serve metrics on spec.metrics.port {port} ({error}); choose a port that no other container uses")


def end(head: Head, ending: Ending) -> NoReturn:
    """The single way out. Writes the termination message early: nothing is lost if we are killed half-way."""
    head.is_ending = True
    if is_premature(ending):
        _kill_training(head)  # before reading the last checkpoint, since training could commit another one
    fit = head.mailbox.read_newest_fit()
    outcome = build_outcome(ending, fit.progress, fit.restart)
    outcome = replace(outcome, message=clean(outcome.message))
    write_termination_message(outcome.to_json(), head.pod.termination_message)
    reported = ReportedOutcome(
        outcome.outcome,
        outcome.reason,
        shorten_middle(outcome.message, MESSAGE_CHARS),
        outcome.process_exit_code,
        outcome.suspect_pod,
    )
    state: State = "FINISHED" if outcome.has_succeeded else "ERRORED"
    head.publisher.update(lambda report: replace(report, state=state, outcome=reported))
    head.publisher.begin_stop()
    keeping, keep_until = _start_thread(_keep_end, head, outcome), time.monotonic() + KEEP_SECONDS
    if not is_premature(ending):
        timeout = LAST_LINES_SECONDS if outcome.has_succeeded else LAST_LINES_OF_FAILURE_SECONDS
        head.ranks.wait_until_ended(fit.progress.processes, timeout=timeout)
    _wait_for_last_report(head, LAST_REPORT_OF_SUCCESS_SECONDS if outcome.has_succeeded else 0.0)
    keeping.join(max(keep_until - time.monotonic(), LAST_KEEP_SECONDS if outcome.has_succeeded else 0.0))
    log(f"{outcome.outcome}: {outcome.message}" if outcome.message else outcome.outcome)
    sys.stdout.flush()
    sys.stderr.flush()
    _kill_training(head)
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
    pod, job, spool = head.pod, head.job, find_spool(head.pod.temp)
    if not (outcome.has_succeeded or spool.exists()):
        return
    folder = open_own_folder(find_storage_path(pod, job), job.run_name)
    claim = find_claim(folder, uid=job.uid, attempt=pod.attempt, pod=pod.uid)
    if claim is not None and outcome.has_succeeded:
        leave_outcome(folder, claim, outcome)
    if claim is not None and spool.exists():
        complete_history(folder, claim, spool, outcome)


def _kill_training(head: Head) -> None:
    for script in head.scripts:
        kill_child(script)
    if head.ray is not None:
        kill_workers(head.ray)


def _train(head: Head, endings: queue.SimpleQueue[Ending]) -> None:
    attempt = Attempt(head.pod, head.job, head.publisher, head.mailbox, endings.put, head.ranks, head.scripts)
    endings.put(run_training(attempt))


def receive_sigterm(signals: queue.SimpleQueue[bool]) -> None:
    """Ray's own handler, which it installs when the driver joins, calls ours, but aborts the process 3 s later."""
    signal.alarm(0)
    signals.put(True)


def _end_on_sigterm(head: Head, signals: queue.SimpleQueue[bool], endings: queue.SimpleQueue[Ending]) -> None:
    signals.get()
    head.is_terminating = True
    seconds = head.pod.end_seconds
    log(f"received SIGTERM; waiting up to {seconds:.0f} s for one more checkpoint if training is running")
    if seconds > 0:
        end = time.time() + seconds
        head.mailbox.driver.change(lambda value: replace(value, end=end))
    has_commit = wait_for_commit(lambda: head.mailbox.read_newest_fit().progress, seconds=seconds)
    log("a checkpoint was committed" if has_commit else "no checkpoint was committed")
    endings.put(TERMINATED)


def wait_for_commit(read: Callable[[], Progress], *, seconds: float) -> bool:
    """Whether one arrived; waits at most `seconds`, and no longer than the worker group trains."""
    progress, deadline = read(), time.monotonic() + seconds
    while progress.state in _WORTH_WAITING and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        progress = read()
        if progress.has_last_commit and progress.state == "RUNNING":
            return True
    return False


def _watch_ray(head: Head, ray: subprocess.Popen[bytes], endings: queue.SimpleQueue[Ending]) -> None:
    code = ray.wait()
    if not head.is_ending:
        print(clean(read_end(head.pod.temp / RAY_LOG, lines=RAY_LOG_LINES)), flush=True)
        message = f"Ray's head {describe_exit(code)}; the head's log has Ray's last lines"
        endings.put(Failure(FailureClass.INFRASTRUCTURE, "RayHeadEnded", message))


def _build_publisher(pod: Pod, job: JobInput, mailbox: Mailbox) -> Publisher:
    ca = pod.input_folder / CA_KEY
    endpoint = None
    if pod.report_url:
        trusted = str(ca) if ca.exists() else None
        endpoint = Endpoint(pod.report_url, pod.report_token, trusted, os.environ.get(HOSTS_FILE))
    base = Report(namespace=job.namespace, name=job.name, uid=job.uid, attempt=pod.attempt, state="STARTING")
    metrics = MetricReader(job.progress.metric, job.progress.total_metric, job.train_loop_config)
    answer = Answer(progress_deadline_seconds=pod.progress_deadline)  # until the operator has answered
    return Publisher(endpoint=endpoint, mailbox=mailbox, base=base, answer=answer, estimate=RunEstimate(metrics))


def _watch_output(forward: str, archive: Archive) -> Ranks:
    ranks, keep = Ranks(forward), partial(archive.add, HEAD)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # never raises
    sys.stdout = RankStream(sys.stdout, ranks, keep)
    sys.stderr = RankStream(sys.stderr, ranks, keep)
    return ranks


def _start_thread(target: Callable[..., object], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread
