"""`railhead exec`: runs a command in the pod of a rank, through kubectl, which has the terminal's protocol."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import Subparsers, add_command
from railhead.cli.logs import count
from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster

EXEC = (
    "Run a command in the pod of a rank, or in the head pod: railhead exec NAME --rank 3 -- nvidia-smi. "
    "Without a command it is a shell. Needs kubectl."
)
SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    exec_ = add_command(commands, "exec", EXEC, run_in_pod)
    exec_.add_argument("--rank", type=count, metavar="R", help="of the rank (default: the head pod)")


async def run_in_pod(options: argparse.Namespace, cluster: Cluster, _: Console) -> int:
    """Returns the exit code of the command. Raises ClientError if there is no such pod or no kubectl."""
    from railhead.client.kubectl import build_exec

    base = build_exec(cluster.namespace, options.kubeconfig, options.context)
    pod = await _find_pod(options, cluster, base)
    terminal = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else ["-i"]
    command = [*base, *terminal, pod, "-c", "ray", "--", *(options.words or SHELL)]
    return await asyncio.to_thread(subprocess.call, command)  # it has the terminal until it ends


async def _find_pod(options: argparse.Namespace, cluster: Cluster, base: Sequence[str]) -> str:
    from railhead.api import names
    from railhead.client.errors import ClientError, ExitCode
    from railhead.client.ranks import find_rank
    from railhead.client.snapshot import read_pod

    job = await cluster.get_job(options.name)
    running = [pod for pod in map(read_pod, await cluster.list_pods(job["metadata"]["uid"])) if pod.is_running]
    newest = max((pod.attempt for pod in running), default=0)
    role = names.HEAD if options.rank is None else names.WORKER
    pods = [pod.name for pod in running if pod.attempt == newest and pod.role == role]
    if not pods:
        message = f"{options.name} has no running {role} pod; run `railhead why {options.name}`"
        raise ClientError(message, ExitCode.NOT_FOUND)
    if options.rank is None:
        return pods[0]

    async def ask(pod: str, question: Sequence[str]) -> str:
        command = [*base, pod, "-c", "ray", "--", *question]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:  # another pod has the rank, or the user interrupts
                process.kill()
        if process.returncode:
            raise ClientError(f"cannot look for the rank in pod {pod}: {errors.decode(errors='replace').strip()}")
        return output.decode(errors="replace")

    found = await find_rank(options.rank, pods, ask)
    if found is None:
        message = f"rank {options.rank} runs in none of the worker pods {', '.join(pods[:8])}"
        raise ClientError(f"{message}; its beginning is unknown after 128 MiB of output", ExitCode.NOT_FOUND)
    return found
