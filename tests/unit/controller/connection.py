"""A client's connection, over which tests send what no HTTP client would."""

from __future__ import annotations

import asyncio
import ssl
from typing import Self


class Connection:
    """A client's, which sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> Self:
        return cls(*await asyncio.open_connection(host, port, ssl=context))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def read_status(self) -> int:
        """Of the next answer, which is read to its end; 0 when there is none."""
        try:
            line = await self._reader.readline()
            if not line:
                return 0
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = [each for each in head.lower().split(b"\r\n") if each.startswith(b"content-length:")]
            await self._reader.readexactly(int(length[0].partition(b":")[2]) if length else 0)
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        return int(line.split()[1])

    async def wait_closed(self) -> None:
        """Returns when the server has closed it."""
        try:
            while await self._reader.read(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass

    def close(self) -> None:
        self._writer.transport.abort()
