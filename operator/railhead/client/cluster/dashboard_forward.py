"""The way to Ray's dashboard of a running job: its address, and the Secret with the token that it asks for."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from railhead.api import names
from railhead.api.status import parse_status
from railhead.client.cluster.child_process import run_process
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.job_snapshot import read_pod
from railhead.client.cluster.kubectl import LOCAL_HOST, build_forward, explain_no_pod
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.contract.job_input import DASHBOARD, DASHBOARD_PORT
from railhead.contract.text import clean_line
from railhead.json_object import Object, part, parts, text

HOST = "127.0.0.1"
ANSWER_SECONDS = 10.0
LOG_BYTES = 16 << 20  # of the head's log: its beginning has the dashboard's start
LONGEST_REASON = 600
_ABOUT_IT = re.compile(rf"railhead +[0-9.]+s  {DASHBOARD} (.*)")
_FORWARDED = re.compile(rb"Forwarding from (127\.0\.0\.1:[0-9]+) ->")
Use = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Dashboard:
    """Where it runs.

    Attributes:
        pod: the head pod.
        secret: the name of the Secret with Ray's token.
        address: its URL if it listens on this machine, as in local mode; else empty.
    """

    job: str
    pod: str
    secret: str
    address: str = ""


async def find_dashboard(cluster: Cluster, name: str) -> Dashboard:
    """Returns where the job's dashboard runs. Raises ClientError if it is switched off or the job has no head pod."""
    job = await cluster.get_job(name)
    if part(part(job, "spec"), "ray").get("dashboard") is not True:
        raise ClientError(
            f"{name} runs without Ray's dashboard; switch it on with `railhead suspend {name} --wait` and "
            f"`railhead resume {name} --set ray.dashboard=true`, and install ray[default] in its image",
            ExitCode.NOT_FOUND,
        )
    status = parse_status(job.get("status"))
    # By its name and not by labels, which other pods may have: a user gives Ray's token to what answers there.
    pod = await cluster.find_pod(names.head_name(name, str(job["metadata"]["uid"]), status.attempt))
    if pod is None or not read_pod(pod).is_running:
        raise explain_no_pod(name, status, names.HEAD)
    address = ""
    if text(part(pod, "status"), "hostIP") == LOCAL_HOST:
        address = f"http://{text(part(pod, 'status'), 'podIP')}:{DASHBOARD_PORT}"
    return Dashboard(name, str(pod["metadata"]["name"]), _find_secret(pod), address)


def _find_secret(pod: Object) -> str:
    volumes = parts(part(pod, "spec"), "volumes")
    return next((text(part(each, "secret"), "secretName") for each in volumes if _is_auth(each)), "")


def _is_auth(volume: Object) -> bool:
    return text(volume, "name") == names.AUTH_VOLUME


async def open_dashboard(cluster: Cluster, dashboard: Dashboard, port: int, use: Use) -> None:
    """Calls `use` with an address of this machine at which the dashboard answers, and forwards it until cancelled.

    A dashboard of local mode needs no forward, so that this returns at once.

    Raises:
        ClientError: the dashboard does not answer, or the forward cannot begin or has ended.
    """
    if dashboard.address:
        await _check_answer(cluster, dashboard, dashboard.address)
        await use(dashboard.address)
        return
    check_port(port)
    ports = f"{port or ''}:{DASHBOARD_PORT}"
    command = [*build_forward(cluster), "--address", HOST, f"pod/{dashboard.pod}", ports]
    async with run_process(command, f"the forward to pod {dashboard.pod} has ended") as output:
        async for line in output:
            found = _FORWARDED.match(line)
            if found is not None:
                address = f"http://{found[1].decode()}"
                await _check_answer(cluster, dashboard, address)
                await use(address)
    raise ClientError(f"the forward to pod {dashboard.pod} has ended; run `railhead why {dashboard.job}`")


def check_port(port: int) -> None:
    """Raises ClientError if something listens at this port already, since kubectl says it in more words; 0 = any."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise ClientError(f"cannot listen on {HOST}:{port}: {error}; choose another --port") from None


async def _check_answer(cluster: Cluster, dashboard: Dashboard, address: str) -> None:
    """Raises ClientError, which says why, if no dashboard that wants a token answers there."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{address}/api/authentication_mode") as answer,
        ):
            if "token" in await answer.text():
                return
    except (aiohttp.ClientError, TimeoutError):
        pass
    raise ClientError(await _explain_silence(cluster, dashboard))


async def _explain_silence(cluster: Cluster, dashboard: Dashboard) -> str:
    """Returns why the dashboard does not answer, by the newest line of the driver about it."""
    silence = f"{DASHBOARD} does not answer in pod {dashboard.pod}"
    try:
        lines = await cluster.read_log(dashboard.pod, LOG_BYTES)
    except ClientError as error:
        return f"{silence}, and why is not known: {error}"
    # Training code may print lines of this form, too.
    found = [match[1] for match in map(_ABOUT_IT.match, lines) if match]
    if not found:
        return f"{silence} yet: it starts some seconds after the driver has joined Ray; try again then"
    again = f"It starts again with the next attempt, as after `railhead suspend {dashboard.job} --wait` and a resume"
    return f"{silence}. The driver says: {clean_line(found[-1])[:LONGEST_REASON]}. {again}"
