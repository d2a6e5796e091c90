"""`railhead local`: starts, stops and shows the cluster on this machine, and runs one job in it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from railhead.cli.output import Console
from railhead.cli.parser import IMAGE_VARIABLE, default_folder
from railhead.contract.text import clean_text
from railhead.local import LocalError
from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl, KubectlFailed
from railhead.local.local_jobs import JobName, JobResult, find_job, follow
from railhead.local.processes import is_alive
from railhead.local.session import Session, default_capacity

LOG_LINES = 40
LOCAL_IMAGE = "local"  # any name will do: local mode pulls no image


def stop_command(folder: Path) -> str:
    """Returns the shell command that stops the session of the folder."""
    is_default = folder == default_folder().expanduser().resolve()
    return "railhead local down" + ("" if is_default else f" --dir {shlex.quote(str(folder))}")


class TimedConsole:
    """Prints lines, each with the seconds since the command started."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def echo(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {clean_text(text)}", flush=True)


def describe_access(session: Session) -> str:
    """Returns the shell commands that point kubectl and railhead at the session, and the one that stops it."""
    folders = [str(session.bin)]
    railhead = shutil.which("railhead")
    own = Path(sys.executable).parent / "railhead"
    if railhead is None and own.exists():
        # It was started by its path, as from a virtual environment that is not activated.
        folders.append(str(own.parent))
    path = ":".join(shlex.quote(folder) for folder in folders)
    return (
        f"  export KUBECONFIG={shlex.quote(str(session.kubeconfig))}\n"
        f"  export PATH={path}:$PATH   # kubectl and railhead\n"
        f"  export {IMAGE_VARIABLE}={LOCAL_IMAGE}   # `railhead submit` needs no --image: local mode pulls none\n"
        f"To stop it:\n  {stop_command(session.folder)}"
    )


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keeps a second Ctrl-C from cutting the cleanup short."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sig, signal.SIG_IGN) for sig in signals]
    try:
        yield
    finally:
        for sig, handler in zip(signals, before, strict=True):
            signal.signal(sig, handler)


def do_up(options: argparse.Namespace) -> int:
    """Starts the cluster, which stays up after this command."""
    console = TimedConsole()
    session = Session(options.dir)
    session.refuse_if_up()
    binaries = resolve(console.echo)
    capacity = default_capacity(gpus=options.gpus)
    has_operator = not options.without_operator
    session.up(
        capacity,
        binaries=binaries,
        echo=console.echo,
        is_ours_only=False,
        has_operator=has_operator,
        has_gangs=options.gang,
    )
    print(f"\nThe cluster is up. To use it:\n{describe_access(session)}")
    return 0


def do_down(options: argparse.Namespace) -> int:
    """Stops the cluster, and ends what a crashed one left behind."""
    session = Session(options.dir)
    was_up = session.is_up()
    with uninterrupted():
        left = session.down()
    if was_up:
        print(f"stopped; logs are in {session.logs}")
    elif left:
        print(f"stopped {left} processes that a crashed session left behind")
    else:
        print(f"no session is running in {session.folder}")
    return 0


def do_status(options: argparse.Namespace) -> int:
    """Prints the cluster's processes; returns 1 if it is not up."""
    session = Session(options.dir)
    state = session.state()
    if not session.is_up():
        print(f"{session.folder}: not up" + (f" ({state.message})" if state.message else ""))
        return 1
    print(f"{session.folder}: {state.phase}, {state.server}, {state.gpus} GPUs")
    for name, identity in state.processes.items():
        print(f"  {name:<24} pid {identity.pid:<8} {'running' if is_alive(identity) else 'exited'}")
    print(describe_access(session))
    return 0


def do_run(options: argparse.Namespace) -> int:
    """Runs the file's job, in a cluster that it starts and stops unless one is up; returns 0 if the job succeeds."""
    console = TimedConsole()
    job = find_job(options.file)
    session = Session(options.dir)
    if session.is_up():
        return _run_in(session, options, job=job, console=console)
    binaries = resolve(console.echo)
    capacity = default_capacity(gpus=options.gpus)
    session.up(capacity, binaries=binaries, echo=console.echo, is_ours_only=not options.keep)
    try:
        return _run_in(session, options, job=job, console=console)
    finally:
        if options.keep:
            print(f"\nThe cluster stays up. To use it:\n{describe_access(session)}")
        else:
            with uninterrupted():
                session.down()


def _run_in(session: Session, options: argparse.Namespace, *, job: JobName, console: TimedConsole) -> int:
    """Applies the file and follows the job. An interruption deletes the job if this command created it."""
    if session.state().gpus < options.gpus:
        raise LocalError(
            f"the session in {session.folder} has {session.state().gpus} GPUs, not {options.gpus}; "
            f"stop it with `{stop_command(session.folder)}`, or choose another --dir"
        )
    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    applied = kubectl("apply", "-f", str(options.file))
    for line in applied.splitlines():
        console.echo(line)
    is_new = any(line.startswith("trainjob") and line.endswith(" created") for line in applied.splitlines())
    try:
        kubeconfig = str(session.kubeconfig)
        result = asyncio.run(follow(kubeconfig, namespace=job.namespace, name=job.name, echo=console.echo))
    except KeyboardInterrupt:
        if is_new and not options.keep:
            with uninterrupted():
                _delete(kubectl, job)
        raise
    return _report(result, kubectl, job=job, console=console)


def _delete(kubectl: Kubectl, job: JobName) -> None:
    try:
        kubectl("delete", "trainjobs.railhead.dev", job.name, "-n", job.namespace, "--ignore-not-found")
    except KubectlFailed as error:
        print(f"the job {job.name} could not be deleted: {error}")


def _report(result: JobResult, kubectl: Kubectl, *, job: JobName, console: TimedConsole) -> int:
    """Prints the result, with the end of the head pod's log after a failure; returns the exit code."""
    for line in result.lines:
        console.echo(line)
    if result.is_success:
        return 0
    selector = f"railhead.dev/job-name={job.name},railhead.dev/role=head"
    try:
        log = kubectl("logs", "-n", job.namespace, "-l", selector, f"--tail={LOG_LINES}")
    except KubectlFailed:
        log = ""
    if log:
        print("\nThe end of the head pod's log:")
        for line in log.splitlines():
            Console().log_line(line)
    return 1
