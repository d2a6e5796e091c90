"""The way to Ray's dashboard: which pod, which Secret, and a forwarded port that answers."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from railhead.api import names
from railhead.client.cluster import dashboard_forward as module
from railhead.client.cluster.connection import Target
from railhead.client.cluster.dashboard_forward import Dashboard, check_port, find_dashboard, open_dashboard
from railhead.client.exit_codes import ClientError
from railhead.json_object import Object
from tests.unit.client.jobs import make_job, make_pod

RUNNING: Object = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}
HEAD = names.head_name("digits", "uid-digits", 2)
ON: Object = {"ray": {"dashboard": True}}
VOLUMES = [
    {"name": "railhead-input", "configMap": {"name": "digits-input"}},
    {"name": "railhead-auth", "secret": {"secretName": "digits-auth"}},
]


class FixedCluster:
    namespace = "team-a"
    target = Target()

    def __init__(self, job: Object, *pods: Object, log: Sequence[str] | ClientError = ()) -> None:
        self._job = job
        self._log = log
        self._pods = {pod["metadata"]["name"]: pod for pod in pods}

    async def get_job(self, name: str) -> Object:
        return self._job

    async def find_pod(self, name: str) -> Object | None:
        return self._pods.get(name)

    async def read_log(self, pod: str, most: int) -> list[str]:
        assert (pod, most) == (HEAD, 16 << 20)
        if isinstance(self._log, ClientError):
            raise self._log
        return list(self._log)


def make_head(name: str = HEAD, **status: Any) -> Object:
    pod = make_pod(name, attempt=2, **{**RUNNING, **status})
    pod["spec"]["volumes"] = VOLUMES
    return pod


async def find(job: Object, *pods: Object) -> Dashboard:
    cluster: Any = FixedCluster(job, *pods)
    return await find_dashboard(cluster, "digits")


async def test_it_runs_in_the_head_pod_of_the_current_attempt() -> None:
    job = make_job(spec=ON, phase="Running", attempt=2)
    copy = make_head("copy-of-the-head")  # with the labels of the head
    assert await find(job, copy, make_head()) == Dashboard("digits", HEAD, "digits-auth")
    local = make_head(hostIP="127.0.0.1", podIP="127.3.4.5")
    assert (await find(job, local)).address == "http://127.3.4.5:8265"


@pytest.mark.parametrize("spec", [{}, {"ray": {}}, {"ray": {"dashboard": False}}])
async def test_a_job_without_it_says_how_to_switch_it_on(spec: Object) -> None:
    with pytest.raises(ClientError, match=r"railhead resume digits --set ray\.dashboard=true"):
        await find(make_job(spec=spec, phase="Running", attempt=2), make_head())


@pytest.mark.parametrize("pods", [[], [make_head(phase="Pending", containerStatuses=[])]])
async def test_without_a_running_head_the_message_says_what_helps(pods: list[Object]) -> None:
    with pytest.raises(ClientError, match=r"digits has no running head pod \(phase Starting\); run `railhead why"):
        await find(make_job(spec=ON, phase="Starting", attempt=2), *pods)


@pytest.fixture
async def server() -> AsyncIterator[int]:
    """The port of a dashboard."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"authentication_mode": "token"})

    app = web.Application()
    app.router.add_get("/api/authentication_mode", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


def write_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def forward(used: list[str], address: str = "", *, is_used: asyncio.Event | None = None) -> None:
    async def use(found: str) -> None:
        used.append(found)
        if is_used is not None:
            is_used.set()

    cluster: Any = FixedCluster({})
    await open_dashboard(cluster, Dashboard("digits", HEAD, "digits-auth", address), 0, use)


async def test_a_forward_lasts_until_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: int
) -> None:
    script = f'echo "$$ $*" > {tmp_path}/called; echo "Forwarding from 127.0.0.1:{server} -> 8265"; exec sleep 600'
    write_kubectl(tmp_path, monkeypatch, script)
    used: list[str] = []
    is_used = asyncio.Event()
    task = asyncio.ensure_future(forward(used, is_used=is_used))
    await is_used.wait()
    assert used == [f"http://127.0.0.1:{server}"]
    pid, _, words = (tmp_path / "called").read_text().strip().partition(" ")
    assert words == f"port-forward -n team-a --address 127.0.0.1 pod/{HEAD} :8265"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'error: lost connection to pod' >&2; exit 1", "has ended: error: lost connection to pod"),
        ("exit 0", "has ended; run `railhead why digits`"),
    ],
)
async def test_a_forward_that_ends_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    write_kubectl(tmp_path, monkeypatch, script)
    used: list[str] = []
    with pytest.raises(ClientError, match=f"^the forward to pod {HEAD} {message}"):
        await forward(used)
    assert not used


async def test_a_dashboard_that_does_not_answer_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the image lacks its packages."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    write_kubectl(tmp_path, monkeypatch, f'echo "Forwarding from 127.0.0.1:{port} -> 8265"; exec sleep 600')
    used: list[str] = []
    with pytest.raises(ClientError, match=f"does not answer in pod {HEAD} yet: it starts some seconds after"):
        await forward(used)
    with pytest.raises(ClientError, match="does not answer"):
        await forward(used, f"http://127.0.0.1:{port}")
    assert not used


LACKS = "does not run: spec.image lacks packages that it needs (aiohttp_cors); install ray[default] in the image"
JOINED = "railhead    7.1s  joined Ray"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ([JOINED, f"railhead   12.0s  Ray's dashboard {LACKS}", "epoch 3"], f". The driver says: {LACKS}. It starts"),
        (
            ["railhead    9.0s  Ray's dashboard runs", "railhead  112.5s  Ray's dashboard was killed by SIGKILL"],
            "The driver says: was killed by SIGKILL. It starts again with the next attempt, as after `railhead suspend",
        ),
        (["I like Ray's dashboard was killed", JOINED], " yet: it starts some seconds after the driver"),
        (["railhead    9.0s  Ray's dashboard \x1b[31mred"], "The driver says: \ufffd[31mred"),
        (ClientError("cannot read the log: forbidden"), "why is not known: cannot read the log: forbidden"),
    ],
)
async def test_a_dashboard_that_does_not_answer_says_why(log: Sequence[str] | ClientError, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    cluster: Any = FixedCluster({}, log=log)
    with pytest.raises(ClientError, match=re.escape(reason)):
        await open_dashboard(cluster, Dashboard("digits", HEAD, "digits-auth", address), 0, refuse_address)


async def refuse_address(address: str) -> None:
    raise AssertionError(f"nothing answers at {address}")


async def test_something_else_at_its_port_is_not_shown(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a person would give it Ray's token."""
    used: list[str] = []
    await forward(used, f"http://127.0.0.1:{server}")
    assert used
    with pytest.raises(ClientError, match="does not answer"):
        await forward(used, f"http://127.0.0.1:{server}/elsewhere")


async def test_a_dashboard_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ClientError, match="does not answer"):
        await forward([], f"http://127.0.0.1:{silent.getsockname()[1]}")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClientError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another --port"):
            check_port(port)
    with pytest.raises(ClientError, match="choose another --port"):
        check_port(70000)
    check_port(0)
