"""`railhead submit`: checks a job, says what it will take, creates it and follows it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import Subparsers, add_command, confirm
from railhead.cli.logs import count
from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.api.base import Object
    from railhead.client.cluster import Cluster

SUBMIT = "Create the TrainJob of a YAML file, or of a Python file and its function, after a check and a question."


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    submit = add_command(commands, "submit", SUBMIT, submit_job, has_name=False)
    submit.add_argument("target", metavar="TARGET", help="job.yaml, or train.py:train_func")
    submit.add_argument("-f", "--follow", action="store_true", help="print its log until it has finished")
    submit.add_argument("--dry-run", action="store_true", help="only check it, and print what it will take")
    submit.add_argument("-y", "--yes", action="store_true", help="do not ask")
    script = submit.add_argument_group("of a Python file, which becomes spec.source.inline")
    script.add_argument("--name", default="", help="default: that of the file")
    script.add_argument("--image", metavar="IMAGE", help="has Ray and the packages that the file imports")
    script.add_argument("--storage", metavar="URI", help="spec.run.storagePath, for example s3://bucket/runs")
    script.add_argument("--workers", type=count, default=1, metavar="N", help="default: %(default)s")
    script.add_argument("--gpus", type=count, default=0, metavar="N", help="GPUs per worker (default: %(default)s)")


async def submit_job(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Creates the job unless it exists already; with --follow returns 0 if it succeeds."""
    from railhead.client.submission import check_existing, describe_plan, mark

    job = mark(read_target(options))
    namespace = job["metadata"].get("namespace")
    if namespace and not options.namespace:
        cluster = replace(cluster, namespace=namespace)
    name = str(job["metadata"]["name"])
    existing = await cluster.find_job(name)
    if existing is not None:
        console.line(check_existing(job, existing))
    else:
        checked = await cluster.create_job(job, is_dry_run=True)
        for label, value in describe_plan(checked, cluster.namespace):
            console.line(f"{label:<12}{value}")
        if options.dry_run:
            return 0
        if sys.stdin.isatty() and not options.yes and not confirm("Create it?"):
            return 2
        await cluster.create_job(job)
        console.line(f"{name}: created")
    if options.follow:
        return await _follow(cluster, name, console)
    for command in (f"status {name}", f"logs {name} -f", f"why {name}"):
        console.line(f"  railhead {command}")
    return 0


def read_target(options: argparse.Namespace) -> Object:
    """Returns the job of the file. Raises ClientError."""
    from railhead.client.errors import ClientError, ExitCode
    from railhead.client.rendering import read_jobs
    from railhead.client.submission import Script, build_job

    if options.target.endswith((".yaml", ".yml")):
        if options.name or options.image or options.storage or options.workers != 1 or options.gpus:
            message = "--name, --image, --storage, --workers and --gpus are for a Python file; change the YAML file"
            raise ClientError(message, ExitCode.USAGE)
        jobs = read_jobs(Path(options.target))
        if len(jobs) != 1:
            raise ClientError(f"{options.target} has {len(jobs)} TrainJobs; submit takes one", ExitCode.USAGE)
        return jobs[0]
    if not options.image or not options.storage:
        raise ClientError("a Python file needs --image and --storage as well", ExitCode.USAGE)
    path = Path(options.target.rpartition(":")[0] or options.target)
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{path} cannot be read: {error}", ExitCode.USAGE) from None
    script = Script(
        target=options.target,
        code=code,
        image=options.image,
        storage=options.storage,
        name=options.name,
        workers=options.workers,
        gpus=options.gpus,
    )
    return build_job(script)


async def _follow(cluster: Cluster, name: str, console: Console) -> int:
    """Prints the log until the job has finished, then how."""
    from railhead.client.logs import Printer, Wanted, follow_logs
    from railhead.client.waiting import wait_for

    say = Console(sys.stderr)
    await follow_logs(cluster, name, Wanted(), Printer(console.log_line, lambda text: say.line(f"railhead: {text}")))
    ending = await wait_for(cluster, name, "finished", timeout=None)
    say.line(ending.message)
    return 0 if ending.is_reached else 1
