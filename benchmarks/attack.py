"""The ports of the operator under attack: how long the reports of another job and the probes take, and how much memory
the operator takes. In the end a job's own metrics port is attacked: how long a scrape takes.

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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import aiohttp

from benchmarks.attacker import Attack
from benchmarks.command import run_program
from benchmarks.run import RunFailed
from benchmarks.scale.api import connect
from benchmarks.scale.driver import Driver, find_authority
from benchmarks.scale.modes import echo
from benchmarks.scale.plane import BARE, start_plane
from benchmarks.scale.process import Process, installed
from benchmarks.scale.reporting import start_drivers
from benchmarks.scale.subject import Subject, load_subject
from railhead.controller.tokens import read_claims
from railhead.driver.head.metrics_server import MetricsServer
from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve

REPORT_SECONDS = 0.5
RETRY_SECONDS = 0.3  # as drivers do, at first
LOOK_SECONDS = 0.05
PROBE_SECONDS = 5.0
REST_SECONDS = 12.0  # until the connections of the last attack are closed


@dataclass
class Figures:
    """Of one attack.

    Attributes:
        delays: seconds from the moment a report of B is due until it is accepted.
        probes: seconds until /readyz has answered, over a new connection each time.
        cpu: seconds of the operator.
        grown: MiB of the operator's memory, at the most.
        sent: by the attacker: answers by status, 0 for none.
    """

    delays: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
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


async def probe_until(stop: asyncio.Event, url: str, probes: list[float]) -> None:
    """Asks as the kubelet does, but more often. A probe without an answer counts with the time until it has failed."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        while not stop.is_set():
            began = time.monotonic()
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with session.get(url, timeout=aiohttp.ClientTimeout(PROBE_SECONDS)) as response:
                    await response.read()
            probes.append(time.monotonic() - began)
            await asyncio.sleep(REPORT_SECONDS / 5)


async def start_attacker(attack: Attack) -> tuple[asyncio.subprocess.Process, asyncio.Task[dict[str, int]]]:
    """Returns the process, and the task that awaits its answers."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "benchmarks.attacker"]
    attacker = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)

    async def talk() -> dict[str, int]:
        output, _ = await attacker.communicate(attack.to_json().encode() + b"\n")
        answers: dict[str, int] = json.loads(output.splitlines()[-1])
        return answers

    return attacker, asyncio.create_task(talk())


async def measure(
    process: Process, driver: Driver, authority: ssl.SSLContext, attack: Attack | None, seconds: float
) -> Figures:
    """With this attack, or without one for this long."""
    figures, stop = Figures(), asyncio.Event()
    tasks = [
        asyncio.create_task(report_until(stop, driver, authority, figures.delays)),
        asyncio.create_task(probe_until(stop, process.probes, figures.probes)),
    ]
    used, before = process.used, process.memory()

    async def look(attacker: asyncio.subprocess.Process | None) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end if attacker is None else attacker.returncode is None:
            figures.grown = max(figures.grown, process.memory() - before)
            await asyncio.sleep(LOOK_SECONDS)

    if attack is None:
        await look(None)
    else:
        attacker, talk = await start_attacker(attack)
        await look(attacker)
        figures.sent.update(await talk)
    figures.cpu = process.used - used
    stop.set()
    await asyncio.gather(*tasks)
    return figures


async def run(options: argparse.Namespace, write: Callable[[str], None]) -> None:
    subject = load_subject()
    write(
        f"{'attack':44}{'B: reports, s at most':>24}{'probes':>18}{'CPU s':>8}{'MiB more':>10}  the attacker's answers"
    )
    metrics = f"127.0.0.1:{free_port()}"
    secured = replace(subject, command=(*subject.command, f"--metrics-listen={metrics}"))
    # A control plane each: both operators are given jobs of the same names.
    with start_plane(resolve(echo), BARE) as plane, installed(plane, subject) as process:
        plan: Plan = partial(plan_attacks, options=options, probes=process.probes)
        await attack_ports(plane, process, subject, write, plan=plan, seconds=options.seconds)
    with start_plane(resolve(echo), BARE) as plane, installed(plane, secured) as process:
        plan = partial(plan_attacks_on_metrics, options=options, url=f"https://{metrics}/metrics")
        await attack_ports(plane, process, secured, write, plan=plan, seconds=options.seconds)
    await attack_driver(options, write)


Plan = Callable[[Attack], dict[str, Attack | None]]


def plan_attacks(target: Attack, *, options: argparse.Namespace, probes: str) -> dict[str, Attack | None]:
    """On the report endpoint and the probe port."""
    scrape = replace(target, url=probes.replace("/readyz", "/metrics"), body="")
    return {
        "none": None,
        "bad tokens": replace(target, per_second=options.per_second),
        "forged tokens of A": replace(target, per_second=options.per_second, is_forged=True),
        "bad tokens, a connection each": replace(target, per_second=options.per_second, is_fresh=True),
        "bad tokens, pipelined": replace(target, pipelining=options.clients, body=""),
        "connections with half a body": replace(target, connections=options.connections, is_forged=True),
        "probe port: pipelined scrapes": replace(scrape, pipelining=options.clients),
        "probe port: connections with half a request": replace(scrape, connections=options.connections),
    }


def plan_attacks_on_metrics(target: Attack, *, options: argparse.Namespace, url: str) -> dict[str, Attack | None]:
    scrape = replace(target, url=url, body="")
    return {
        "metrics port: bad tokens, pipelined": replace(scrape, pipelining=options.clients),
        "metrics port: connections with half a request": replace(scrape, connections=options.connections),
    }


async def attack_ports(
    plane: ControlPlane,
    process: Process,
    subject: Subject,
    write: Callable[[str], None],
    *,
    plan: Plan,
    seconds: float,
) -> None:
    process.start()
    async with connect(plane) as api:
        await process.wait_ready()
        a, b = await start_drivers(api, subject, process, jobs=2, workers=1)
        authority = await find_authority(api)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=authority)) as session:
            while not a.answers[202]:
                await a.report(session)
        for name, attack in plan(describe_target(a, seconds)).items():
            found = await measure(process, b, authority, attack, seconds)
            reports = f"{len(found.delays)}, {max(found.delays):.3f}"
            probes = f"{len(found.probes)}, {max(found.probes):.3f}"
            write(f"{name:44}{reports:>24}{probes:>18}{found.cpu:8.1f}{found.grown:10.1f}  {describe_sent(found.sent)}")
            await asyncio.sleep(REST_SECONDS)


async def attack_driver(options: argparse.Namespace, write: Callable[[str], None]) -> None:
    """The metrics port of a job (spec.metrics), which the driver serves."""
    port = free_port()
    MetricsServer("127.0.0.1", port, lambda: "railhead_job_loss 1.0\n" * 1000).start()
    url = f"http://127.0.0.1:{port}/metrics"
    target = Attack(url, "", "", "", body="", seconds=options.seconds)
    attacks = {
        "job's metrics port: pipelined scrapes": replace(target, pipelining=options.clients),
        "job's metrics port: half a request each": replace(target, connections=options.clients),
    }
    for name, attack in attacks.items():
        scrapes, stop = list[float](), asyncio.Event()
        task = asyncio.create_task(probe_until(stop, url, scrapes))
        _, talk = await start_attacker(attack)
        sent = await talk
        stop.set()
        await task
        write(f"{name:44}{'':24}{f'{len(scrapes)}, {max(scrapes):.3f}':>18}{'':18}  {describe_sent(sent)}")


def describe_sent(sent: Mapping[str, int]) -> str:
    return ", ".join(f"{status}: {number}" for status, number in sorted(sent.items()))


def describe_target(driver: Driver, seconds: float) -> Attack:
    """The head of this driver's job, as its token names it, and a report of it."""
    claims = read_claims(driver.token)
    if claims is None:
        raise RunFailed("the API server issued no token for the endpoint")
    head, body = claims.speaker, driver.build_report().to_json().decode()
    return Attack(driver.url, head.namespace, head.pod, head.pod_uid, body=body, seconds=seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-attack", description=__doc__)
    parser.add_argument("--per-second", type=int, default=1000, help="bad requests (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=1000, help="with half a request (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=16, help="that pipeline requests (default: %(default)s)")
    options = parser.parse_args()
    return run_program("bench-attack", partial(bench, options))


def bench(options: argparse.Namespace) -> int:
    asyncio.run(run(options, print))
    return 0


if __name__ == "__main__":
    sys.exit(main())
