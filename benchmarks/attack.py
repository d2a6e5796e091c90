"""The report endpoint under attack: how long the reports of another job take, and how much memory the operator takes.

Job A is the one that forged tokens name. Job B reports twice a second, every third time over a new connection. The
attacker is a process of its own, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import aiohttp

from benchmarks.attacker import Attack
from benchmarks.run import RunFailed
from benchmarks.scale.api import connect
from benchmarks.scale.driver import Driver, find_authority
from benchmarks.scale.modes import echo
from benchmarks.scale.plane import BARE, start_plane
from benchmarks.scale.process import Process, installed
from benchmarks.scale.reporting import start_drivers
from benchmarks.scale.subject import load_subject
from railhead.cli.main import interrupt_on_termination
from railhead.controller.tokens import read_claims
from railhead.local import LocalError
from railhead.local.control_plane.binaries import resolve

REPORT_SECONDS = 0.5
RETRY_SECONDS = 0.3  # as drivers do, at first
LOOK_SECONDS = 0.05
REST_SECONDS = 12.0  # until the connections of the last attack are closed


@dataclass
class Figures:
    """Of one attack.

    Attributes:
        delays: seconds from the moment a report of B is due until it is accepted.
        cpu: seconds of the operator.
        grown: MiB of the operator's memory, at the most.
        sent: by the attacker: answers by status, 0 for none.
    """

    delays: list[float] = field(default_factory=list)
    cpu: float = 0.0
    grown: float = 0.0
    sent: Counter[str] = field(default_factory=Counter)


async def report_until(stop: asyncio.Event, driver: Driver, authority: ssl.SSLContext, delays: list[float]) -> None:
    """B's driver: tries each report until it is accepted."""
    session, number = None, 0
    while not stop.is_set():
        if session is None or number % 3 == 0:
            if session is not None:
                await session.close()
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=authority, limit=1))
        due, accepted = time.monotonic(), driver.answers[202]
        while True:
            with suppress(aiohttp.ClientError, OSError):
                await driver.report(session)
            if driver.answers[202] > accepted:
                break
            await asyncio.sleep(RETRY_SECONDS)
        delays.append(time.monotonic() - due)
        number += 1
        await asyncio.sleep(max(due + REPORT_SECONDS - time.monotonic(), 0))
    if session is not None:
        await session.close()


async def measure(
    process: Process, driver: Driver, authority: ssl.SSLContext, attack: Attack | None, seconds: float
) -> Figures:
    """With this attack, or without one for this long."""
    figures, stop = Figures(), asyncio.Event()
    task = asyncio.create_task(report_until(stop, driver, authority, figures.delays))
    used, before = process.used, process.memory()

    async def look(attacker: asyncio.subprocess.Process | None) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end if attacker is None else attacker.returncode is None:
            figures.grown = max(figures.grown, process.memory() - before)
            await asyncio.sleep(LOOK_SECONDS)

    if attack is None:
        await look(None)
    else:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "benchmarks.attacker"]
        attacker = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        talk = asyncio.create_task(attacker.communicate(attack.to_json().encode() + b"\n"))
        await look(attacker)
        figures.sent.update(json.loads((await talk)[0].splitlines()[-1]))
    figures.cpu = process.used - used
    stop.set()
    await task
    return figures


async def run(options: argparse.Namespace, write: Callable[[str], None]) -> None:
    subject = load_subject()
    with start_plane(resolve(echo), BARE) as plane, installed(plane, subject) as process:
        process.start()
        async with connect(plane) as api:
            await process.wait_ready()
            a, b = await start_drivers(api, subject, process, jobs=2, workers=1)
            authority = await find_authority(api)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=authority)) as session:
                while not a.answers[202]:
                    await a.report(session)
            target = describe_target(a, options)
            attacks = {
                "none": None,
                "bad tokens": replace(target, per_second=options.per_second),
                "forged tokens of A": replace(target, per_second=options.per_second, is_forged=True),
                "bad tokens, a connection each": replace(target, per_second=options.per_second, is_fresh=True),
                "connections with half a body": replace(target, connections=options.connections, is_forged=True),
            }
            write(f"{'attack':34}{'B: reports, s at most':>24}{'CPU s':>8}{'MiB more':>10}  the attacker's answers")
            for name, attack in attacks.items():
                found = await measure(process, b, authority, attack, options.seconds)
                sent = ", ".join(f"{status}: {number}" for status, number in sorted(found.sent.items()))
                delays = f"{len(found.delays)}, {max(found.delays):.3f}"
                write(f"{name:34}{delays:>24}{found.cpu:8.1f}{found.grown:10.1f}  {sent}")
                await asyncio.sleep(REST_SECONDS)


def describe_target(driver: Driver, options: argparse.Namespace) -> Attack:
    """The head of this driver's job, as its token names it, and a report of it."""
    claims = read_claims(driver.token)
    if claims is None:
        raise RunFailed("the API server issued no token for the endpoint")
    head, body = claims.speaker, driver.build_report().to_json().decode()
    return Attack(driver.url, head.namespace, head.pod, head.pod_uid, body=body, seconds=options.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-attack", description=__doc__)
    parser.add_argument("--per-second", type=int, default=1000, help="bad requests (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=1000, help="with half a body (default: %(default)s)")
    options = parser.parse_args()
    interrupt_on_termination()
    try:
        asyncio.run(run(options, print))
    except KeyboardInterrupt:
        return 130
    except (LocalError, RunFailed) as error:
        echo(f"bench-attack: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
