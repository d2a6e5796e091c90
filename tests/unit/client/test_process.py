"""Another program's output: a program that prints without end is ended with the block that reads it."""

from __future__ import annotations

import asyncio

import pytest

from railhead.client.errors import ClientError
from railhead.client.process import read_all, run_process

FLOOD = ("sh", "-c", "exec yes")


async def wait_until_full(output: asyncio.StreamReader) -> None:
    """Until asyncio reads no more of a program, of which it has no event."""
    while not output._paused:  # type: ignore[attr-defined]  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_the_block_ends_while_the_program_waits_for_a_reader() -> None:
    """asyncio reads no more than a buffer ahead, and takes a process for ended only at the end of its output."""
    with pytest.raises(ClientError, match="enough"):
        async with asyncio.timeout(30), run_process(FLOOD, "the pod") as output:
            await wait_until_full(output)
            raise ClientError("enough")


async def test_an_interruption_ends_the_program() -> None:
    async def read() -> None:
        async with run_process(FLOOD, "the pod") as output:
            begun.set_result(output)
            await asyncio.Event().wait()

    begun: asyncio.Future[asyncio.StreamReader] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(read())
    output = await begun
    await wait_until_full(output)
    task.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_failure_has_the_programs_own_words() -> None:
    with pytest.raises(ClientError, match="the pod: no such folder"):
        async with run_process(("sh", "-c", "echo no such folder >&2; exit 3"), "the pod") as output:
            await read_all(output, 1 << 20, "the pod")
