"""Where a rank runs: each rank marks the beginning of its output in a file of its pod, whose name ends with its pid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

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
    """Returns the pod in which the rank runs; `ask` runs a command in a pod and returns its output."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def is_in(pod: str) -> bool:
        async with limit:
            return (await ask(pod, build_question(rank))).strip().isdigit()

    found = await asyncio.gather(*map(is_in, pods))
    return next((pod for pod, is_there in zip(pods, found, strict=True) if is_there), None)
