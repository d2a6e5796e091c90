"""Where a rank runs: each rank marks the beginning of its output in a file of its pod, whose name ends with its pid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from railhead.client.errors import ClientError
from railhead.contract import environment

AT_ONCE = 16
MARK_BYTES = 65536  # the mark is that near to the beginning of the file
Ask = Callable[[str, Sequence[str]], Awaitable[str]]


def build_question(rank: int) -> list[str]:
    """Returns the command that prints the pid of the rank, if it runs in the pod, and nothing otherwise."""
    return [
        "sh",
        "-c",
        f'for f in "${environment.TEMP}"/session_2*/logs/worker-*.out; do head -c {MARK_BYTES} "$f" 2>/dev/null '
        f'| grep -qa ":railhead-mark:begin:{rank}:" || continue; p=${{f##*-}}; p=${{p%.out}}; '
        '[ -d "/proc/$p" ] && echo "$p" && exit 0; done; exit 0',
    ]


async def find_rank(rank: int, pods: Sequence[str], ask: Ask) -> str | None:
    """Returns the pod in which the rank runs; `ask` runs a command in a pod and returns its output.

    Raises:
        ClientError: that of `ask` about a pod which did not respond, if no other pod has the rank.
    """
    limit = asyncio.Semaphore(AT_ONCE)

    async def find_in(pod: str) -> str | None:
        async with limit:
            return pod if (await ask(pod, build_question(rank))).strip().isdigit() else None

    tasks = [asyncio.ensure_future(find_in(pod)) for pod in pods]
    failure: ClientError | None = None
    try:
        for task in asyncio.as_completed(tasks):
            try:
                pod = await task
            except ClientError as error:
                failure = error
                continue
            if pod is not None:
                return pod
    finally:
        for each in tasks:
            each.cancel()
    if failure is not None:
        raise failure
    return None
