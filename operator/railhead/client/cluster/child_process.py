"""Runs another program, such as kubectl, and reads what it prints, of which none is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from railhead.client.exit_codes import ClientError
from railhead.contract.text import clean_line

MESSAGE_BYTES = 4096
Answer = TypeVar("Answer")


@asynccontextmanager
async def run_process(command: Sequence[str], doing: str, line: str = "") -> AsyncIterator[asyncio.StreamReader]:
    """Yields the output of a program that gets one line of input, and ends the program with the block.

    Raises:
        ClientError: the program fails; has `doing` and the program's own words.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin and process.stdout and process.stderr
    words = asyncio.ensure_future(_read_end(process.stderr))
    try:
        # Its exit code and its words say why.
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(f"{line}\n".encode())
            await process.stdin.drain()
            process.stdin.close()
        yield process.stdout
        if await process.wait():
            lines = (await words).decode(errors="replace").splitlines()
            message = clean_line(" ".join(each for each in lines if not each.startswith("command terminated")))
            raise ClientError(f"{doing}: {message or f'exit code {process.returncode}'}")
    finally:
        # Another pod has the answer, or the user interrupts.
        if process.returncode is None:
            process.kill()
        while await process.stdout.read(1 << 16):
            # asyncio takes a process for ended only at the end of its output.
            pass
        await process.wait()
        words.cancel()


async def read_all(output: asyncio.StreamReader, most: int, place: str) -> bytes:
    """Returns the whole output. Raises ClientError if it has more than `most` bytes."""
    data = bytearray()
    while chunk := await output.read(1 << 20):
        data += chunk
        if len(data) > most:
            raise ClientError(f"{place} prints more than {most >> 20} MiB")
    return bytes(data)


def parse_answer(type_: type[Answer], data: bytes | str, problem: str) -> Answer:
    """Returns JSON that must have exactly this type. Raises ClientError with the problem."""
    try:
        return TypeAdapter(type_).validate_json(data, strict=True)
    except ValidationError:
        raise ClientError(problem) from None


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    end = b""
    while chunk := await stream.read(65536):
        end = (end + chunk)[-MESSAGE_BYTES:]
    return end
