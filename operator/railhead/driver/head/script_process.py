"""Runs the user's script as a child process in the head pod, from its start to the attempt's ending.

Copies its output to ours, line by line. The exit code alone tells little, so `script.watched_fit` reports through the
mailbox what happens inside. The two, and the last lines of the output, make the ending.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Iterable, List, Mapping, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import JobInput
from railhead.driver.container.hosts import write_address
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.pod_processes import describe_exit, kill_group, start_piped_child
from railhead.driver.container.run_context import NUM_WORKERS, RUN_NAME, STORAGE_PATH
from railhead.driver.container.user_code import choose_working_folder
from railhead.driver.head.rank_stream import LAST_LINES_OF_FAILURE_SECONDS, LAST_LINES_SECONDS, Ranks
from railhead.driver.head.threads import start_thread
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import Fit
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.exit_words import clean_line
from railhead.driver.messages.log import log
from railhead.driver.messages.printed_error import describe_printed_error
from railhead.driver.messages.redaction import redact
from railhead.driver.pod.ending import Ending, Success
from railhead.driver.train_controller import CALLBACK

Scripts = List[subprocess.Popen[bytes]]
# In the script's environment, by which sitecustomize recognises it.
SCRIPT = "RAILHEAD_SCRIPT"
NOT_USABLE = "EntrypointNotUsable"
LOOK_SECONDS = 0.1
# For processes that the script left running and that keep its output open.
OUTPUT_SECONDS = 5.0
KEPT_LINES = 100  # of standard error: enough for the frames of an exception
QUOTED_LINES = 12  # of them, in a message
UNCAUGHT = 1  # Python's exit code after an exception that nobody has caught
# The ranks' own lines, and those of Ray's other processes, which pass through the script's standard error.
_OF_ANOTHER_PROCESS = re.compile(r"\(\S+ pid=\d+")
# A line of a traceback, also of one whose beginning is not among the lines that were kept.
_OF_TRACEBACK = re.compile(r'  File ".+", line \d+, in |Traceback \(most recent call last\):$')
LINE_LIMIT = 65536
SHOWN_ENTRYPOINT_CHARS = 500
# A script that cannot be imported fails the same way each time.
_PERMANENT = re.compile(r"^(ModuleNotFoundError|ImportError|SyntaxError|IndentationError|TabError)\b")
_NO_FIT = (
    "trainer.entrypoint: the script exited with code 0 without calling fit() on one of Ray Train's trainers; "
    "call it in the script, or check the head's log for why the script did not get that far. A sweep of ray.tune.Tuner "
    "is not supported: create one TrainJob for each trial"
)


def build_command(entrypoint: Iterable[str]) -> list[str]:
    """Returns the command to run; `python` means the Python of this pod's entry point, which has Ray."""
    command = list(entrypoint)
    if command[0] in ("python", "python3"):
        command[0] = sys.executable
    return command


def build_environment(environment: Mapping[str, str], *, pod: Pod, job: JobInput) -> dict[str, str]:
    """Returns the script's environment: where Ray and the run are, and our callback before the user's."""
    callbacks = [CALLBACK, environment.get("RAY_TRAIN_CALLBACKS", "")]
    return {
        **environment,
        RUN_NAME: job.run_name,
        STORAGE_PATH: job.storage_path,
        NUM_WORKERS: str(job.scaling.num_workers),
        SCRIPT: "1",
        "RAY_ADDRESS": write_address(pod.ip, pod.head_port),
        "RAY_TRAIN_CALLBACKS": ",".join(filter(None, callbacks)),
    }


def find_missing_file(entrypoint: list[str], folder: str) -> str:
    """Returns the file that `python FILE` would not find in this folder, or an empty string."""
    if not os.path.basename(entrypoint[0]).startswith("python"):
        return ""
    arguments = iter(entrypoint[1:])
    for argument in arguments:
        if argument in ("-m", "-c"):
            return ""
        if argument in ("-W", "-X"):
            # The option's value is the next argument.
            next(arguments, None)
        elif not argument.startswith("-"):
            if Path(folder, argument).exists():
                return ""
            return argument
    return ""


def check_script(job: JobInput) -> None:
    """Checks what can be checked before Ray is up. Raises JobRefused."""
    folder = choose_working_folder()
    missing = find_missing_file(job.entrypoint, folder)
    if missing:
        raise JobRefused(
            NOT_USABLE, f"trainer.entrypoint: there is no file {missing} in {folder}, the script's working directory"
        )


def run_script(job: JobInput, pod: Pod, mailbox: Mailbox, ranks: Ranks, scripts: Scripts) -> Ending:
    """Runs the script to its end. Call it once Ray's head listens. Raises JobRefused.

    Adds the process to `scripts`, which the head kills when the attempt ends before the script.
    """
    command = build_command(job.entrypoint)
    environment = build_environment(os.environ, pod=pod, job=job)
    try:
        child = start_piped_child(command, environment=environment, folder=choose_working_folder())
    except OSError as error:
        problem = f"trainer.entrypoint: {job.entrypoint[0]} cannot be started: {error.strerror}"
        raise JobRefused(NOT_USABLE, problem) from error
    scripts.append(child)
    log(f"running the script: {redact(' '.join(job.entrypoint))[:SHOWN_ENTRYPOINT_CHARS]}")
    last_lines: deque[str] = deque(maxlen=KEPT_LINES)
    pumps = [_start_pump(child.stdout, "stdout", None), _start_pump(child.stderr, "stderr", last_lines)]
    _wait_until_exit(child, mailbox, ranks)
    for pump in pumps:
        pump.join(OUTPUT_SECONDS)
    # After the pumps: what the script has left running may still write its last lines.
    kill_group(child)
    fit = mailbox.script.read().fit
    failure = mailbox.read_newest_fit().failure
    return decide_ending(child.returncode, fit=fit, failure=failure, last_lines=list(last_lines))


def _wait_until_exit(child: subprocess.Popen[bytes], mailbox: Mailbox, ranks: Ranks) -> None:
    """Waits until the script exits; after each fit(), the script waits until we have read the ranks' last lines."""
    while child.poll() is None:
        fit = mailbox.script.read().fit
        if fit is not None and fit.has_ended and fit.number > mailbox.driver.read().read_fits:
            timeout = LAST_LINES_SECONDS if fit.failure is None else LAST_LINES_OF_FAILURE_SECONDS
            ranks.wait_until_ended(mailbox.read_newest_fit().progress.processes, timeout=timeout)
            mailbox.driver.change(partial(replace, read_fits=fit.number))
        time.sleep(LOOK_SECONDS)


def _start_pump(stream: Optional[IO[bytes]], name: str, last_lines: Optional[deque[str]]) -> threading.Thread:
    """Starts to copy this stream of the script to ours of this name; `last_lines` gets the lines to be quoted."""
    return start_thread(_pump, stream, name, last_lines)


def _pump(stream: Any, name: str, last_lines: Optional[deque[str]]) -> None:
    with stream:
        # A limit, since a script may write without ever ending a line.
        for raw in iter(partial(stream.readline, LINE_LIMIT), b""):
            line = raw.decode(errors="replace")
            # Looked up for each line: sys.stdout may be replaced meanwhile.
            getattr(sys, name).write(line.removesuffix("\n") + "\n")
            shown = clean_line(line)
            if last_lines is not None and shown and not _OF_ANOTHER_PROCESS.match(shown):
                last_lines.append(shown)


def decide_ending(code: int, *, fit: Optional[Fit], failure: Optional[Failure], last_lines: list[str]) -> Ending:
    """Decides by the script's exit code and what it has told.

    Args:
        fit: the last one, None if there was none.
        failure: the failure policy's, if it ended that fit().
    """
    ending = _classify(code, fit=fit, failure=failure, last_lines=last_lines)
    if code == 0 or isinstance(ending, Success) or ending.process_exit_code is not None:
        return ending
    # fit() failed and the script only followed, so its exit code tells nothing.
    if ending.class_.policy.ends_script:
        return ending
    # As a shell has it: a negative code is a signal.
    exit_code = code if code > 0 else 128 - code
    return replace(ending, process_exit_code=exit_code)


def _classify(code: int, *, fit: Optional[Fit], failure: Optional[Failure], last_lines: list[str]) -> Ending:
    if fit is not None and fit.failure is not None:
        return fit.failure
    if code == 0:
        if fit is None:
            return Failure(FailureClass.CONFIGURATION, "NoFit", _NO_FIT)
        if not fit.has_ended:
            return Failure(
                FailureClass.APPLICATION,
                "ScriptEnded",
                "trainer.entrypoint: the script exited while its fit() was still running",
            )
        return Success()
    if failure is not None:
        return failure
    message = f"trainer.entrypoint: the script {describe_exit(code)}{_describe_place(fit)}{_quote(code, last_lines)}"
    if fit is None and last_lines and _PERMANENT.match(last_lines[-1]):
        return Failure(FailureClass.CONFIGURATION, NOT_USABLE, message)
    return Failure(FailureClass.APPLICATION, "ScriptFailed", message)


def _quote(code: int, last_lines: list[str]) -> str:
    """Returns the exception that ended the script, if it has printed one at its end; else its last lines."""
    quoted = last_lines[-QUOTED_LINES:]
    if code == UNCAUGHT and any(map(_OF_TRACEBACK.match, quoted)):
        return ": " + describe_printed_error("\n".join(last_lines))
    if not quoted:
        return ""
    return ":\n" + "\n".join(quoted)


def _describe_place(fit: Optional[Fit]) -> str:
    if fit is None:
        return " before any fit()"
    if fit.has_ended:
        return " after fit()"
    return " in fit()"
