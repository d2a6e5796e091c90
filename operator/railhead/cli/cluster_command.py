"""What commands share that talk to a cluster or read the files of a run."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from railhead.cli.output import Console, remark
from railhead.client.cluster.connection import Cluster, Target, open_cluster
from railhead.json_object import Object

if TYPE_CHECKING:
    from railhead.client.run.run_files import RunFiles

Run = Callable[[argparse.Namespace, Cluster, Console], Awaitable[int]]
# Python looks for garbage in all modules and objects that a command reads: a third of the time of a list of 2,000 jobs.
RARELY = (50_000, 50, 50)


def run_in_cluster(run: Run, options: argparse.Namespace) -> int:
    """Connects to the cluster that the options name, and runs the command there."""
    is_everywhere = bool(getattr(options, "all_namespaces", False))
    target = Target(options.kubeconfig, options.context, options.namespace, is_everywhere)

    async def connect_and_run() -> int:
        async with open_cluster(target) as cluster:
            return await run(options, cluster, Console())

    usual = gc.get_threshold()
    remarks = _Remarks(logging.WARNING)
    gc.set_threshold(*RARELY)
    logging.getLogger("railhead").addHandler(remarks)
    try:
        return asyncio.run(connect_and_run())
    finally:
        logging.getLogger("railhead").removeHandler(remarks)
        gc.set_threshold(*usual)


class _Remarks(logging.Handler):
    """Shows warnings, for example about a watch that is tried again, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        remark(record.getMessage())


def open_files(
    options: argparse.Namespace, cluster: Cluster, job: Object, *, is_own: bool = False
) -> AbstractAsyncContextManager[RunFiles]:
    """Opens the files of the job's run, or with `is_own` the job's own folder, which may have several runs."""
    # Imported here, since with it comes the planner, which a list of jobs does not need.
    from railhead.client.run.open_run import open_run

    return open_run(
        cluster,
        job,
        remark,
        copy=options.folder,
        reader_image=options.reader_image,
        endpoints=options.endpoint,
        is_own=is_own,
    )


def confirm(question: str) -> bool:
    """Asks on the terminal; without one the answer is no."""
    if not sys.stdin.isatty():
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
