"""`railhead logs`: what a job's pods print, now and as it comes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import Subparsers, add_command
from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster

LOGS = "Print the log of a TrainJob's head pod, which has the driver's lines and those of the ranks it forwards."


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    logs = add_command(commands, "logs", LOGS, show_logs)
    which = logs.add_mutually_exclusive_group()
    which.add_argument("--rank", type=count, metavar="R", help="the lines of this rank, from the worker pods")
    which.add_argument("--all", dest="is_all", action="store_true", help="the lines of all pods, each with its pod")
    logs.add_argument("-f", "--follow", action="store_true", help="wait for pods and lines until the job has finished")
    logs.add_argument("--tail", type=count, metavar="N", help="at most the last N lines of each pod so far")


def count(text: str) -> int:
    """Returns a number from 0. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


async def show_logs(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the lines; remarks, for example about a pod that waits, go to standard error."""
    from railhead.client.logs import Printer, Wanted, follow_logs, print_logs

    wanted = Wanted(options.rank, options.is_all, options.tail)
    printer = Printer(console.log_line, lambda text: Console(sys.stderr).line(f"railhead: {text}"))
    await (follow_logs if options.follow else print_logs)(cluster, options.name, wanted, printer)
    return 0
