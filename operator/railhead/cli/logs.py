"""`railhead logs`: what a job's pods print, now and as it comes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from railhead.cli.archived import print_archived
from railhead.cli.cluster_command import Subparsers, add_command
from railhead.cli.output import Console
from railhead.cli.run_access import add_run_options, remark

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster

LOGS = (
    "Print the log of a TrainJob's head pod, which has the driver's lines and those of the ranks it forwards; "
    "from the archive in the run's folder if the pod is gone."
)


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    logs = add_command(commands, "logs", LOGS, show_logs)
    which = logs.add_mutually_exclusive_group()
    which.add_argument("--rank", type=count, metavar="R", help="the lines of this rank, from the worker pods")
    which.add_argument("--all", dest="is_all", action="store_true", help="the lines of all pods, each with its pod")
    logs.add_argument("-f", "--follow", action="store_true", help="wait for pods and lines until the job has finished")
    logs.add_argument("--attempt", type=count, metavar="N", help="the lines of this attempt (default: the newest)")
    logs.add_argument("--tail", type=count, metavar="N", help="at most the last N lines of each pod so far")
    add_run_options(logs)


def count(text: str) -> int:
    """Returns a number from 0. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


async def show_logs(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the lines; remarks, for example about a pod that waits, go to standard error."""
    from railhead.client.errors import ClientError, ExitCode
    from railhead.client.logs import Printer, Wanted, follow_logs, print_logs

    wanted = Wanted(options.rank, options.is_all, options.tail)
    printer = Printer(console.log_line, remark)
    if options.follow:
        if options.attempt is not None:
            raise ClientError("--follow shows the newest attempt and later ones; leave out --attempt", ExitCode.USAGE)
        await follow_logs(cluster, options.name, wanted, printer)
        return 0
    if await print_logs(cluster, options.name, wanted, printer, attempt=options.attempt):
        return 0
    return await print_archived(options, cluster, wanted, console.log_line)
