"""Another program's output: a program that prints without end is ended with the block that reads it."""

from __future__ import annotations

import asyncio

import pytest

from railhead.client.cluster.child_process import read_all, run_process
from railhead.client.exit_codes import ClientError

FLOOD = ("sh", "-c", "exec yes")


async def wait_until_full(output: asyncio.StreamReader) -> None:
    """Until asyncio reads no more of a program, of which it has no event."""
    while not output._paused:  # type: ignore[attr-defined]  # noqa: ASYNC110
        await asyncio.sleep(0)


async def check_end(task: asyncio.Task[None]) -> None:
    """asyncio takes a process for ended only at the end of its output, of which it reads one buffer ahead."""
    done, _ = await asyncio.wait({task}, timeout=30)
    assert done, "the command waits for a program that it has killed"


async def test_a_block_that_has_read_enough_ends_the_program() -> None:
    async def read() -> None:
        async with run_process(FLOOD, "the pod") as output:
            await wait_until_full(output)
            raise ClientError("enough")

    task = asyncio.create_task(read())
    await check_end(task)
    assert str(task.exception()) == "enough"


async def test_an_interruption_ends_the_program() -> None:
    async def read() -> None:
        async with run_process(FLOOD, "the pod") as output:
            begun.set_result(output)
            await asyncio.Event().wait()

    begun: asyncio.Future[asyncio.StreamReader] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(read())
    await wait_until_full(await begun)
    task.cancel()
    await check_end(task)
    assert task.cancelled()


async def test_a_failure_has_the_programs_own_words() -> None:
    with pytest.raises(ClientError, match="the pod: no such folder"):
        async with run_process(("sh", "-c", "echo no such folder >&2; exit 3"), "the pod") as output:
            await read_all(output, 1 << 20, "the pod")
