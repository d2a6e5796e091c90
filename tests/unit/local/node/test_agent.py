"""A pod's GPUs and address are its own while it runs, and free as soon as it has ended; the tail of its logs."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.local.node.agent import GPU, MOST_STRANGERS, Agent, serve_logs, tail_offset
from railhead.local.session import Capacity
from railhead.pki import issue, make_ca
from tests.model.api_server import Object
from tests.model.client import ModelClient, Request, make_client
from tests.unit.local.node.pods import bind, make_pod, statuses, until

STAY = ["sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES|$NVIDIA_VISIBLE_DEVICES"; exec sleep 600']
SHOW = ["sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES"']


@pytest.fixture
def cluster() -> ModelClient:
    return make_client()


@pytest.fixture
async def agent(cluster: ModelClient) -> AsyncIterator[Agent]:
    agent = Agent(cluster, Capacity(8, 2**30, 4))
    yield agent
    await agent.close()


def with_gpus(name: str, count: int, command: list[str], **spec: object) -> Object:
    limits = {GPU: str(count)} if count else {}
    return make_pod(name, {"name": "main", "command": command, "resources": {"limits": limits}}, **spec)


def log_of(agent: Agent, name: str) -> str:
    runner = agent.find("team", name)
    path = runner.log_file("main") if runner else None
    return path.read_text() if path and path.exists() else ""


async def test_two_pods_see_different_gpus_and_one_without_sees_none(agent: Agent, cluster: ModelClient) -> None:
    for name, count in {"a": 2, "b": 2, "c": 0}.items():
        bind(agent, cluster, with_gpus(name, count, STAY))
    await until(lambda: all(log_of(agent, name) for name in "abc"))
    assert [log_of(agent, name) for name in "abc"] == ["0,1|0,1\n", "2,3|2,3\n", "|\n"]


@pytest.mark.parametrize("moment", ["ended", "deleted"])
async def test_gpus_are_free_once_the_api_server_has_the_end(agent: Agent, cluster: ModelClient, moment: str) -> None:
    """The scheduler binds the next pod at once, maybe before the agent has the response."""

    def bind_next(request: Request) -> None:
        has_ended = request.verb == "patch/status" and request.body["status"]["phase"] == "Succeeded"
        if request.verb == "delete" if moment == "deleted" else has_ended:
            cluster.taken = lambda request: None
            bind(agent, cluster, with_gpus("next", 4, SHOW))

    cluster.taken = bind_next
    first = with_gpus("first", 4, ["true"] if moment == "ended" else STAY)
    bind(agent, cluster, first)
    if moment == "deleted":
        await until(lambda: log_of(agent, "first"))
        agent.informer.record_write(cluster.api.delete(("pods", "team", "first"), {}))
    await until(lambda: log_of(agent, "next"))
    assert log_of(agent, "next") == "0,1,2,3\n"


async def test_ended_pods_release_their_addresses(agent: Agent, cluster: ModelClient) -> None:
    names = [f"p{number}" for number in range(260)]
    for name in names:
        bind(agent, cluster, make_pod(name, {"name": "main"}))  # without a command it fails at once
        await until(lambda name=name: agent.find("team", name).is_released)  # type: ignore[misc, union-attr]
    assert all(statuses(cluster, name)[-1]["phase"] == "Failed" for name in names)


async def test_host_names_resolve_to_running_pods(agent: Agent, cluster: ModelClient) -> None:
    for name, command in {"stays": STAY, "ends": ["true"]}.items():
        bind(agent, cluster, with_gpus(name, 0, command, hostname=name, subdomain="jobs"))
    runner = agent.find("team", "stays")
    assert runner is not None
    hosts = agent.folder / "hosts"
    await until(lambda: hosts.read_text() == f"{runner.place.address} stays.jobs\n")


async def test_a_closed_agent_removes_its_folder_and_deletes_no_objects(agent: Agent, cluster: ModelClient) -> None:
    bind(agent, cluster, with_gpus("a", 0, STAY))
    await until(lambda: log_of(agent, "a"))
    await agent.close()
    assert not agent.folder.exists()
    assert cluster.names("delete") == []


@pytest.fixture(scope="module")
def log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "log"


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"bc"]), max_size=20).map(b"".join), st.integers(-1, 12))
def test_the_tail_is_the_last_lines(log: Path, data: bytes, lines: int) -> None:
    log.write_bytes(data)
    complete = [part + b"\n" for part in data.split(b"\n")[:-1]]
    complete += [rest] if (rest := data.rpartition(b"\n")[2]) else []
    assert data[tail_offset(log, lines) :] == b"".join(complete[-lines:] if lines > 0 else [])


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    now = datetime.now(UTC)
    ca = make_ca("ca", now=now, days=1)
    pair = issue(ca, "node", now=now, days=1, names=("127.0.0.1",))
    for name, text in (("ca.crt", ca.certificate), ("node.crt", pair.certificate), ("node.key", pair.key)):
        (tmp_path / name).write_text(text)
    return tmp_path


@asynccontextmanager
async def asking(port: int, pki: Path, query: str) -> AsyncIterator[asyncio.StreamReader]:
    """A client with a certificate of the session, as the API server is; it has read the line with the status."""
    trust = ssl.create_default_context(cafile=pki / "ca.crt")
    trust.load_cert_chain(pki / "node.crt", pki / "node.key")
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    writer.write(f"GET /containerLogs/{query} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    yield reader
    writer.close()


async def test_a_silent_client_of_the_logs_is_let_go_and_one_with_a_certificate_served(
    agent: Agent, pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user of the machine may connect to the port, and may not keep it busy."""
    monkeypatch.setattr("railhead.local.node.agent.STRANGER_SECONDS", 0.3)
    async with serve_logs(agent, pki=pki) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(16)]
        async with asking(port, pki, "a/b/c") as reader:
            assert b"404" in await reader.readline()
        async with asyncio.timeout(10):  # asyncio's own limit is a minute
            assert [await reader.read() for reader, _ in silent] == [b""] * 16
        for _, writer in silent:
            writer.close()


async def test_a_flood_of_silent_clients_of_the_logs_stops_no_request(agent: Agent, pki: Path) -> None:
    async with serve_logs(agent, pki=pki) as port:
        flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_STRANGERS + 20)]
        async with asyncio.timeout(30):
            async with asking(port, pki, "a/b/c") as reader:
                assert b"404" in await reader.readline()
            for reader, _ in flood[:20]:  # of too many, the oldest make way
                with suppress(ConnectionError):
                    assert await reader.read() == b""
        for _, writer in flood:
            writer.close()


async def test_a_log_is_followed_for_longer_than_a_stranger_may_stay(
    agent: Agent, cluster: ModelClient, pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railhead.local.node.agent.STRANGER_SECONDS", 0.3)
    bind(agent, cluster, make_pod("a", {"name": "main", "command": ["sh", "-c", "echo one; exec sleep 600"]}))
    await until(lambda: log_of(agent, "a"))
    runner = agent.find("team", "a")
    assert runner is not None
    async with serve_logs(agent, pki=pki) as port, asking(port, pki, "team/a/main?follow=true") as reader:
        assert b"200" in await reader.readline()
        await asyncio.sleep(0.6)
        with runner.log_file("main").open("a") as file:
            file.write("later\n")
        async with asyncio.timeout(10):
            assert b"later" in await reader.readuntil(b"later")
