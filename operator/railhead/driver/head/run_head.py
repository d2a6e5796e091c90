"""Runs the head pod: Ray's head as a child process, training in a thread, and whatever watches the two.

The main thread waits for the first ending. Training ends, Ray's head exits, training hangs, or SIGTERM arrives: then
the driver notifies all ranks and waits for one more commit, so that no training is lost. Only the commit of a report
that began after the ranks were notified has the latest state: an upload in the background, or a commit, may end late.
`end_attempt` does the rest.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Callable, Mapping, NoReturn, Optional

from railhead.contract.answer import Answer
from railhead.contract.environment import HOSTS_FILE
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import CA_KEY, JobInput
from railhead.contract.report import Report
from railhead.driver.archive.archive_layout import HEAD
from railhead.driver.archive.pod_archive import Archive, start_archive
from railhead.driver.container.hosts import write_address
from railhead.driver.container.packages import find_version
from railhead.driver.container.pod_input import Pod, read_working_folder
from railhead.driver.container.pod_processes import describe_exit, read_end, start_child, wait_until_stopped
from railhead.driver.container.session_logs import TRAIN_LOGS, WORKER_LOGS, keep_small
from railhead.driver.head.end_attempt import TERMINATED, Head, conclude, end
from railhead.driver.head.estimate import MetricReader, RunEstimate
from railhead.driver.head.hang_watch import watch_for_hang
from railhead.driver.head.job_metrics import write_job_metrics
from railhead.driver.head.metrics_server import MetricsServer
from railhead.driver.head.publisher import Endpoint, Publisher
from railhead.driver.head.rank_stream import Ranks, RankStream
from railhead.driver.head.run_attempt import TrainingContext, run_training
from railhead.driver.head.run_recorder import RunRecorder
from railhead.driver.head.threads import start_thread
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.messages.exit_words import keep_line
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact
from railhead.driver.pod.ending import Ending
from railhead.driver.pod.ray_start import build_head_command, build_ray_environment, plan_hang_detector
from railhead.driver.ray.daemons import LOST_PROCESS
from railhead.driver.ray.supported_versions import drop_unsupported_defaults, explain_ray_problem

LOOK_SECONDS = 0.1
RAY_LOG = "ray-start.log"
# Ray names the process that ended above up to 200 lines of the log of each.
RAY_LOG_LINES = 1000
# States that are worth waiting: training, or finishing, which has its own outcome. In others there is nothing to save.
WORTH_WAITING = ("RUNNING", "FINISHED")

Endings = queue.SimpleQueue[Ending]
Signals = queue.SimpleQueue[bool]


def run_head(environment: Mapping[str, str]) -> NoReturn:
    """Runs one attempt, from the start of the container to its exit code. Raises AttemptFailed for unusable input."""
    head = _build_head(environment)
    endings: Endings = queue.SimpleQueue()
    _handle_sigterm(head, endings)
    _serve_metrics(head)
    problem = explain_ray_problem(find_version(), head.job)
    if problem:
        head.publisher.start()
        end(head, Failure(FailureClass.CONFIGURATION, "RayTooOld", problem))
    ray = _start_ray(head)
    head.publisher.start()
    start_thread(_watch_ray, head, ray, endings)
    start_thread(_train, head, endings)
    start_thread(watch_for_hang, head.mailbox, head.publisher, endings.put)
    start_thread(head.recorder.watch)
    start_thread(keep_small, head.pod.temp, TRAIN_LOGS, WORKER_LOGS)
    ending = endings.get()
    end(head, conclude(ending, is_terminating=head.is_terminating))


def _build_head(environment: Mapping[str, str]) -> Head:
    """Reads the pod's input, and changes this process for what follows: its environment and its output."""
    pod = Pod.from_environment(environment)
    job = drop_unsupported_defaults(find_version(), pod.read_job())
    pod.temp.mkdir(parents=True, exist_ok=True)
    archive = start_archive(HEAD, pod, job, environment)
    _change_environment(build_ray_environment(environment, job=job, pod=pod, folder=read_working_folder()))
    for name, value in plan_hang_detector(job, client=shutil.which("ncclras")).items():
        os.environ.setdefault(name, value)
    mailbox = Mailbox(pod.temp)
    ranks = _watch_output(job.forward_logs, archive)
    publisher = _build_publisher(pod, job, mailbox)
    recorder = RunRecorder(pod, job, publisher, mailbox)
    return Head(pod, job, mailbox, publisher, ranks, archive, recorder)


def _change_environment(wanted: Mapping[str, str]) -> None:
    """Gives this process and those that it starts the environment of Ray's processes."""
    removed = sorted(os.environ.keys() - wanted.keys())
    for name in removed:
        del os.environ[name]
    if removed:
        log(f"ignoring {', '.join(removed)} of spec.image, spec.env or spec.envFrom: Railhead decides what they change")
    os.environ.update(wanted)


def _watch_output(forward: str, archive: Archive) -> Ranks:
    """Puts a RankStream in the place of this process's output. `forward`: spec.logs.forward."""
    ranks = Ranks(forward)
    keep = partial(archive.add, HEAD)
    for stream in (sys.stdout, sys.stderr):
        # A rank may print what this stream's encoding lacks; that must not raise here.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout = RankStream(sys.stdout, ranks, keep)
    sys.stderr = RankStream(sys.stderr, ranks, partial(_keep_error, archive))
    return ranks


def _keep_error(archive: Archive, line: str) -> None:
    keep_line(line)
    archive.add(HEAD, line)


def _build_publisher(pod: Pod, job: JobInput, mailbox: Mailbox) -> Publisher:
    base = Report(namespace=job.namespace, name=job.name, uid=job.uid, attempt=pod.attempt, state="STARTING")
    metrics = MetricReader(job.progress.metric, job.progress.total_metric, job.train_loop_config)
    # The limit in the pod's input counts until the operator has answered a report.
    answer = Answer(progress_deadline_seconds=pod.progress_deadline)
    return Publisher(
        endpoint=_find_endpoint(pod), mailbox=mailbox, base=base, answer=answer, estimate=RunEstimate(metrics)
    )


def _find_endpoint(pod: Pod) -> Optional[Endpoint]:
    """Returns the operator's report endpoint, None for a pod that was given none."""
    if not pod.report_url:
        return None
    ca_file = None
    ca = pod.input_folder / CA_KEY
    if ca.exists():
        ca_file = str(ca)
    return Endpoint(pod.report_url, pod.report_token, ca_file, os.environ.get(HOSTS_FILE))


def _handle_sigterm(head: Head, endings: Endings) -> None:
    # The put of a SimpleQueue is reentrant. A lock could be held by the very thread that the signal interrupts.
    signals: Signals = queue.SimpleQueue()

    def handle(*_: object) -> None:
        receive_sigterm(signals)

    signal.signal(signal.SIGTERM, handle)
    start_thread(_end_on_sigterm, head, signals, endings)


def receive_sigterm(signals: Signals) -> None:
    """Wakes the thread that waits for SIGTERM, and cancels an alarm of Ray's.

    Ray's own handler, which it installs when the driver joins, calls this one, but aborts the process 3 s later.
    """
    signal.alarm(0)
    signals.put(True)


def _end_on_sigterm(head: Head, signals: Signals, endings: Endings) -> None:
    signals.get()
    head.is_terminating = True
    seconds = head.job.end_seconds
    log(f"received SIGTERM; waiting up to {seconds:.0f} s for one more checkpoint if training is running")
    if seconds > 0:
        # The controller finds it in the mailbox, and notifies the ranks.
        head.mailbox.driver.change(partial(replace, end=time.time() + seconds))

    def read_progress() -> Progress:
        return head.mailbox.read_newest_fit().progress

    if wait_for_commit(read_progress, seconds=seconds):
        log("a checkpoint was committed")
    else:
        log("no checkpoint was committed")
    endings.put(TERMINATED)


def wait_for_commit(read: Callable[[], Progress], *, seconds: float) -> bool:
    """Waits for the last commit, at most `seconds` and only while the worker group trains; tells whether it came."""
    progress = read()
    deadline = time.monotonic() + seconds
    while progress.state in WORTH_WAITING and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        progress = read()
        # A run that finishes has an outcome of its own, which must come before TERMINATED.
        if progress.has_last_commit and progress.state == "RUNNING":
            return True
    return False


def _serve_metrics(head: Head) -> None:
    """Serves the job's metrics, if it has a port for them; if that port is taken, the job trains without metrics.

    Call it before Ray starts: Ray's processes take free ports, and may take this one.
    """
    port = head.job.metrics_port
    if port is None:
        return
    try:
        MetricsServer(head.pod.ip, port, partial(write_job_metrics, head.publisher, head.mailbox)).start()
    except OSError as error:
        log(f"cannot serve metrics on spec.metrics.port {port} ({error}); choose a port that no other container uses")


def _start_ray(head: Head) -> subprocess.Popen[bytes]:
    pod = head.pod
    log(f"starting Ray's head at {write_address(pod.ip, pod.head_port)}")
    head.ray = start_child(build_head_command(pod, head.job), environment=os.environ, log=pod.temp / RAY_LOG)
    return head.ray


def _watch_ray(head: Head, ray: subprocess.Popen[bytes], endings: Endings) -> None:
    """Waits for the end of Ray's head, or of one of its processes; either ends the attempt, unless it is ending."""
    code = wait_until_stopped(ray)
    if head.is_ending:
        return
    last_lines = read_end(head.pod.temp / RAY_LOG, lines=RAY_LOG_LINES)
    print(redact(last_lines), flush=True)
    if code is None:
        what = _explain_stop(last_lines)
    else:
        what = f"Ray's head {describe_exit(code)}"
    message = f"{what}; the head's log has Ray's last lines"
    endings.put(Failure(FailureClass.INFRASTRUCTURE, "RayHeadEnded", message))


def _explain_stop(lines: str) -> str:
    """Returns why `ray start` has stopped, by the last lines of its log; somebody else may have stopped it too."""
    told = [line for line in lines.splitlines() if line.startswith(LOST_PROCESS)]
    if told:
        return told[-1]
    return "Ray's head was stopped by a signal"


def _train(head: Head, endings: Endings) -> None:
    attempt = TrainingContext(head.pod, head.job, head.publisher, head.mailbox, endings.put, head.ranks, head.scripts)
    endings.put(run_training(attempt))
