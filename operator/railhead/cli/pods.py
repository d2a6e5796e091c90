"""`railhead exec` and `stacks`: commands in a job's pods, through kubectl, which has the terminal's protocol."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from railhead.api import names
from railhead.cli.output import Console
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.kubectl import ask_pod, build_exec, find_pods
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.explain.ranks import collect_stacks, find_rank, group_stacks
from railhead.client.outputs import Stacks

SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")


async def do_stacks(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the stacks below the ranks that have them."""
    stacks = await collect_stacks(cluster, options.name)
    if console.print_if_data(Stacks(tuple(stacks)), options.output):
        return 0
    for heading, text in group_stacks(stacks):
        console.line(heading)
        for line in text.splitlines():
            console.line(f"  {line}")
    return 0


async def do_exec(options: argparse.Namespace, cluster: Cluster, _: Console) -> int:
    """Returns the exit code of the command. Raises ClientError if there is no such pod or no kubectl."""
    base = build_exec(cluster)
    pod = await _choose_pod(options, cluster, base)
    terminal = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else ["-i"]
    command = [*base, *terminal, pod, "-c", names.CONTAINER, "--", *(options.words or SHELL)]
    # It has the terminal until it ends.
    return await asyncio.to_thread(subprocess.call, command)


async def _choose_pod(options: argparse.Namespace, cluster: Cluster, base: Sequence[str]) -> str:
    if options.rank is None:
        return (await find_pods(cluster, options.name, names.HEAD))[0]
    pods = await find_pods(cluster, options.name, names.WORKER)
    found = await find_rank(options.rank, pods, partial(ask_pod, base))
    if found is None:
        where = f"rank {options.rank} runs in none of the worker pods {', '.join(pods[:8])}"
        message = f"{where}, or it has printed more than 128 MiB, of which only the end is kept"
        raise ClientError(message, ExitCode.NOT_FOUND)
    return found
