"""Attacks a port of another process: requests at a rate, many connections with half a request each, or clients that
send many requests at once on each connection.

Reads a line of JSON from its standard input, and prints the answers that it got.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from urllib.parse import urlsplit

import aiohttp

from railhead.contract.report import AUDIENCE, LIMIT_BYTES

CLIENTS = 100
PIPELINED = 200


@dataclass(frozen=True)
class Attack:
    """What it does.

    Attributes:
        namespace, pod, pod_uid: the head that forged tokens name.
        body: a report of that head.
        per_second: requests; 0: instead as many connections at once as `connections`, each with half a body, or without
            a `body` with half of the headers.
        pipelining: instead so many clients, each of which sends PIPELINED requests on a connection, again and again.
        is_forged: with tokens that name the head; else with tokens that cannot be right.
        is_fresh: each request has a connection of its own.
    """

    url: str
    namespace: str
    pod: str
    pod_uid: str
    body: str
    seconds: float
    per_second: int = 0
    connections: int = 0
    pipelining: int = 0
    is_forged: bool = False
    is_fresh: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def make_token(self, number: int) -> str:
        """A new one for each number."""
        if not self.is_forged:
            return f"bad.{number:x}.token"
        pod = {"namespace": self.namespace, "pod": {"name": self.pod, "uid": self.pod_uid}}
        claims = {"aud": [AUDIENCE], "exp": time.time() + 600, "jti": str(number), "kubernetes.io": pod}
        return ".".join((_encode({"alg": "RS256"}), _encode(claims), "c2ln"))

    def build_head(self, number: int) -> str:
        """Of a request, without its end."""
        parts = urlsplit(self.url)
        head = f"{'POST' if self.body else 'GET'} {parts.path} HTTP/1.1\r\nHost: {parts.hostname}\r\n"
        return f"{head}Authorization: Bearer {self.make_token(number)}\r\n"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises OSError."""
        parts = urlsplit(self.url)
        context = _trust_anyone() if parts.scheme == "https" else None
        return await asyncio.open_connection(parts.hostname, parts.port, ssl=context)


def _encode(values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _trust_anyone() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _flood(attack: Attack) -> Counter[int]:
    """Sends the requests, as many per second as it can of those wanted; the answers by status, 0 for none."""
    answers, numbers, began = Counter[int](), count(), time.monotonic()
    connector = aiohttp.TCPConnector(ssl=_trust_anyone(), limit=CLIENTS, force_close=attack.is_fresh)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send() -> None:
            for number in numbers:
                at = began + number / attack.per_second
                if at > began + attack.seconds or time.monotonic() > began + attack.seconds:
                    return
                await asyncio.sleep(at - time.monotonic())
                headers = {"Authorization": f"Bearer {attack.make_token(number)}"}
                try:
                    async with session.post(attack.url, data=attack.body, headers=headers) as response:
                        await response.read()
                        answers[response.status] += 1
                except (aiohttp.ClientError, OSError):
                    answers[0] += 1

        await asyncio.gather(*(send() for _ in range(CLIENTS)))
    return answers


async def _hold(attack: Attack) -> Counter[int]:
    """Opens the connections, each with all but the last byte of the largest body, and keeps them.

    On a busy machine it opens fewer: a server at its bound may let each one wait.
    """
    opened, streams = Counter[int](), []
    end = time.monotonic() + attack.seconds
    for number in range(attack.connections):
        if time.monotonic() > end:
            break
        sent = attack.build_head(number).encode()
        if attack.body:
            sent += f"Content-Length: {LIMIT_BYTES}\r\n\r\n".encode() + b" " * (LIMIT_BYTES - 1)
        try:
            streams.append(await asyncio.wait_for(attack.connect(), attack.seconds))
            streams[-1][1].write(sent)
            opened[1] += 1
        except OSError:
            opened[0] += 1
    await asyncio.sleep(attack.seconds)
    for _, writer in streams:
        writer.transport.abort()
    return opened


async def _pipeline(attack: Attack) -> Counter[int]:
    """Counts the first answers of the connections by status, 0 for none."""
    answers, end = Counter[int](), time.monotonic() + attack.seconds

    async def send() -> None:
        number = 0
        while time.monotonic() < end:
            number += 1
            try:
                reader, writer = await attack.connect()
                writer.write(f"{attack.build_head(number)}\r\n".encode() * PIPELINED)
                line = await reader.readline()
                answers[int(line.split()[1]) if line else 0] += 1
                with suppress(ConnectionError):  # the server closes it with requests that it has not read
                    while await reader.read(65536):
                        pass
                writer.transport.abort()
            except OSError:
                answers[0] += 1

    await asyncio.gather(*(send() for _ in range(attack.pipelining)))
    return answers


async def _run(attack: Attack) -> Counter[int]:
    if attack.pipelining:
        return await _pipeline(attack)
    if attack.per_second:
        return await _flood(attack)
    return await _hold(attack)


def main() -> None:
    attack = Attack(**json.loads(sys.stdin.readline()))
    print(json.dumps(asyncio.run(_run(attack))), flush=True)


if __name__ == "__main__":
    main()
