"""How a status reaches the API server: in order, with the newest facts, even after an outage."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from railhead.kube.errors import Denied
from railhead.local.node import pod_status
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.pod_status import Place, PodStatus
from railhead.local.processes import identify, is_alive
from tests.model.api_server import ModelApiServer, Object
from tests.model.client import ModelClient
from tests.model.faults import NEVER_SENT, NOON, Call, Fault, Faults
from tests.unit.local.node.pods import make_pod, statuses, until


class Away:
    """A server that accepts no status while `is_away`, with a count of the attempts."""

    def __init__(self) -> None:
        self.is_away = True
        self.tries = 0

    def choose(self, call: Call) -> Fault | None:
        if call.verb != "patch/status" or not self.is_away:
            return None
        self.tries += 1
        return NEVER_SENT


def make_store(away: Away | None = None) -> ModelClient:
    api = ModelApiServer(lambda: NOON)
    api.put(make_pod("pod"))
    return ModelClient(api, Faults(away.choose if away else lambda call: None))


def accepted(store: ModelClient) -> list[Object]:
    """The statuses that the server has accepted."""
    rejected = len([call for call, _ in store.faults.done if call.verb == "patch/status"])
    return statuses(store, "pod")[rejected:]


def make_place(folder: Path) -> Place:
    return Place(folder / "pod", "127.9.9.9", "127.0.0.1", folder / "hosts", ())


def make_status(store: ModelClient, folder: Path) -> PodStatus:
    return PodStatus(store, make_pod("pod"), make_place(folder), on_change=lambda: None)


def set_message(status: PodStatus, message: str) -> None:
    status.facts["main"] = replace(status.facts["main"], message=message)


def messages(store: ModelClient) -> list[str]:
    return [s["containerStatuses"][0]["state"]["waiting"].get("message", "") for s in accepted(store)]


async def test_resends_a_lost_status_with_later_changes(tmp_path: Path) -> None:
    away = Away()
    store = make_store(away)
    status = make_status(store, tmp_path)
    set_message(status, "first")
    first = asyncio.create_task(status.publish())
    await until(lambda: away.tries)
    set_message(status, "second")
    second = asyncio.create_task(status.publish())
    away.is_away = False
    await asyncio.gather(first, second)
    assert messages(store) == ["second"], "once, and nothing older after it"


async def test_sends_each_change(tmp_path: Path) -> None:
    store = make_store()
    status = make_status(store, tmp_path)
    for message in ("first", "second"):
        set_message(status, message)
        await status.publish()
    assert messages(store) == ["first", "second"]


async def test_does_not_resend_a_rejected_status(tmp_path: Path) -> None:
    store = make_store()
    store.faults.script["patch/status", "pod"] = [Denied(422, "Invalid", "no")]
    status = make_status(store, tmp_path)
    await status.publish()
    assert len(statuses(store, "pod")) == 1


async def test_gives_up_a_status_during_a_long_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_status, "PUBLISH_SECONDS", 0.0)
    away = Away()
    store = make_store(away)
    status = make_status(store, tmp_path)
    await asyncio.wait_for(status.publish(), 20)
    away.is_away = False
    await status.publish()
    assert len(accepted(store)) == 1, "it is sent with the next change"


async def test_stops_a_pod_during_an_outage(tmp_path: Path) -> None:
    away = Away()
    store = make_store(away)
    container = {"name": "main", "command": ["sh", "-c", "echo $$$$; exec sleep 600"]}  # $$$$ is the shell's own pid
    runner = PodRunner(store, make_pod("pod", container), make_place(tmp_path))
    task = asyncio.create_task(runner.run())
    log = runner.log_file("main")
    await until(lambda: log.exists() and log.read_text().endswith("\n") and away.tries)
    process = identify(int(log.read_text()))
    assert process is not None
    runner.stop(0)
    await until(lambda: not is_alive(process))
    away.is_away = False
    await asyncio.wait_for(task, 30)
    assert accepted(store)[-1]["phase"] == "Failed"
