"""Run one job on this machine: start the cluster, apply the file, follow the job. Exit code 0 if it succeeds."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from railhead.cli.local_options import Console, add_capacity, add_folder, describe_access, uninterrupted
from railhead.local.control_plane.binaries import resolve
from railhead.local.follow import follow
from railhead.local.install import Kubectl, KubectlFailed
from railhead.local.jobs import JobName, find_job
from railhead.local.narrate import JobResult
from railhead.local.session import Session, SessionError, default_capacity

LOG_LINES = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--file", type=Path, required=True, help="manifests, with exactly one TrainJob")
    parser.add_argument("--keep", action="store_true", help="keep the cluster up afterwards")
    add_folder(parser)
    add_capacity(parser)


def run(options: argparse.Namespace) -> int:
    console = Console()
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
            print(f"\nThe cluster stays up. To use it:\n{describe_access(session)}\nTo stop it:\n  railhead local down")
        else:
            with uninterrupted():
                session.down()


def _run_in(session: Session, options: argparse.Namespace, *, job: JobName, console: Console) -> int:
    """Applies the file and follows the job. An interruption deletes the job if this command created it."""
    if session.state().gpus < options.gpus:
        raise SessionError(
            f"the session in {session.folder} has {session.state().gpus} GPUs, not {options.gpus}; "
            "stop it with `railhead local down`, or choose another --dir"
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


def _report(result: JobResult, kubectl: Kubectl, *, job: JobName, console: Console) -> int:
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
        print(f"\nThe end of the head pod's log:\n{log}", flush=True)
    return 1
