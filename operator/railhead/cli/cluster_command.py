"""What commands share: the options and the connection of those that talk to a cluster or read the files of a run."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.api.base import Object
    from railhead.client.cluster import Cluster
    from railhead.client.run_files import RunFiles

Subparsers = argparse._SubParsersAction  # argparse has no public name for it
Run = Callable[[argparse.Namespace, "Cluster", Console], Awaitable[int]]
SCREEN = ("table", "json", "yaml")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# Python looks for garbage in all modules and objects that a command reads: a third of the time of a list of 2,000 jobs.
RARELY = (50_000, 50, 50)


def add_command(
    commands: Subparsers[argparse.ArgumentParser],
    name: str,
    text: str,
    run: Run,
    *,
    formats: tuple[str, ...] = (),
    has_name: bool = True,
    is_for_all: bool = False,
) -> argparse.ArgumentParser:
    """Adds a command with the options of all; `formats`: what -o takes, the first one is the default."""
    parser = commands.add_parser(name, help=text, description=text)
    if has_name:
        parser.add_argument("name", metavar="NAME", type=job_name, help="the TrainJob")
    target = parser.add_argument_group("cluster")
    target.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else ~/.kube/config")
    target.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")
    target.add_argument("-n", "--namespace", metavar="NAME", help="default: the context's namespace")
    if is_for_all:
        target.add_argument("-A", "--all-namespaces", action="store_true", help="jobs of all namespaces")
    if formats:
        parser.add_argument("-o", "--output", choices=formats, default=formats[0], help="default: %(default)s")
    parser.set_defaults(run=lambda options: run_in_cluster(run, options))
    return parser


def job_name(text: str) -> str:
    """Returns the name; any other text would become another path of the API. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a TrainJob")
    return text


def count(text: str) -> int:
    """Returns a number from 0. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def duration(text: str) -> int:
    """Returns seconds. Raises ArgumentTypeError."""
    found = re.fullmatch(r"([0-9]{1,7})([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; use for example 90s, 20m or 2h")
    return int(found[1]) * SECONDS[found[2]]


def run_in_cluster(run: Run, options: argparse.Namespace) -> int:
    """Connects to the cluster of the options and runs the command; returns its exit code."""
    usual = gc.get_threshold()
    gc.set_threshold(*RARELY)
    from railhead.client.cluster import Target, open_cluster

    is_everywhere = bool(getattr(options, "all_namespaces", False))
    target = Target(options.kubeconfig, options.context, options.namespace, is_everywhere)

    async def connect_and_run() -> int:
        async with open_cluster(target) as cluster:
            return await run(options, cluster, Console())

    remarks = _Remarks(logging.WARNING)
    logging.getLogger("railhead").addHandler(remarks)
    try:
        return explain_refusal(lambda: asyncio.run(connect_and_run()))
    finally:
        logging.getLogger("railhead").removeHandler(remarks)
        gc.set_threshold(*usual)


def explain_refusal(run: Callable[[], int]) -> int:
    """Returns the exit code of what it runs; a ClientError becomes a message on standard error and its code."""
    from railhead.client.errors import ClientError

    try:
        return run()
    except ClientError as error:
        Console(sys.stderr).paragraph(f"railhead: {error}")
        return int(error.code)


class _Remarks(logging.Handler):
    """Shows warnings, for example about a watch that is tried again, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        remark(record.getMessage())


def remark(text: str) -> None:
    """Says what is no output of the command, on standard error."""
    Console(sys.stderr).line(f"railhead: {text}")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that reads the files of a run."""
    run = parser.add_argument_group("files of the run")
    run.add_argument("--folder", metavar="PATH|URI", help="a copy of the run's folder, on this machine or in a store")
    run.add_argument("--reader-image", metavar="IMAGE", help="with python3, for a claim that no pod mounts")


def open_files(options: argparse.Namespace, cluster: Cluster, job: Object) -> AbstractAsyncContextManager[RunFiles]:
    """Opens the files of the job's run."""
    from railhead.client.open_run import Access, open_run

    return open_run(cluster, job, Access(options.folder, options.reader_image, remark))


def confirm(question: str) -> bool:
    """Asks on the terminal; without one the answer is no."""
    if not sys.stdin.isatty():
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
