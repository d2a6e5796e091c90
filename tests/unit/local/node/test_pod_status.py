"""From facts to a status, whose phases only advance and end for good, and how it reaches the API server.

Changes arrive in order, with the newest facts, even after an outage.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.kube.errors import Denied
from railhead.local.node import pod_status
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.pod_status import (
    ContainerFacts,
    PodPlace,
    PodStatus,
    build_status,
    container_status,
    exit_code_of,
    must_restart,
    pod_phase,
    restart_delay_seconds,
)
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


def make_place(folder: Path) -> PodPlace:
    return PodPlace(folder / "pod", "127.9.9.9", folder / "hosts", ())


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
    runner = PodRunner(store, make_pod("pod", container), make_place(tmp_path), on_change=lambda: None)
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


ORDER = ["Pending", "Running", "Succeeded", "Failed"]
WAITING = ContainerFacts(name="main", image="i")
RUNNING = replace(WAITING, state="running", reason="", started_at="2026-01-01T00:00:00Z", container_id="local://1")
DONE = replace(RUNNING, state="terminated", reason="Completed", finished_at="2026-01-01T00:00:09Z")
BROKEN = replace(DONE, reason="Error", exit_code=3, message="because")
AGAIN = replace(BROKEN, state="waiting", reason="CrashLoopBackOff", restarts=1)


def init(facts: ContainerFacts) -> ContainerFacts:
    return replace(facts, name="init", is_init=True)


def describe(*containers: ContainerFacts, policy: str = "Never", address: str = "127.9.9.1") -> dict[str, object]:
    return build_status(containers, policy=policy, address=address, start_time="then")


@pytest.mark.parametrize(
    ("policy", "containers", "phase"),
    [
        ("Never", [WAITING], "Pending"),
        ("Never", [RUNNING], "Running"),
        ("Never", [RUNNING, WAITING], "Pending"),
        ("Never", [DONE, RUNNING], "Running"),
        ("Never", [DONE, DONE], "Succeeded"),
        ("Never", [DONE, BROKEN], "Failed"),
        ("Never", [BROKEN, RUNNING], "Running"),
        ("OnFailure", [DONE], "Succeeded"),
        ("OnFailure", [BROKEN], "Running"),
        ("OnFailure", [AGAIN], "Running"),
        ("Always", [DONE], "Running"),
        ("Never", [init(RUNNING), WAITING], "Pending"),
        ("Never", [init(DONE), RUNNING], "Running"),
        ("Never", [init(BROKEN), WAITING], "Failed"),
        ("OnFailure", [init(BROKEN), WAITING], "Pending"),
        ("Always", [init(DONE), RUNNING], "Running"),
    ],
)
def test_phase(policy: str, containers: list[ContainerFacts], phase: str) -> None:
    assert pod_phase(containers, policy=policy) == phase


def moves(containers: list[ContainerFacts], policy: str) -> list[int]:
    """The containers that can change next: init containers one by one, then all the others."""
    for index, facts in enumerate(containers):
        if facts.is_init and not facts.has_ended_well:
            may = facts.state != "terminated" or must_restart(policy, facts.exit_code, is_init=True)
            return [index] if may else []
    return [
        index
        for index, facts in enumerate(containers)
        if not facts.is_init and (facts.state != "terminated" or must_restart(policy, facts.exit_code))
    ]


def move(facts: ContainerFacts, *, code: int, starts: bool) -> ContainerFacts:
    if facts.state == "terminated":
        return replace(facts, state="waiting", restarts=facts.restarts + 1)
    if facts.state == "waiting" and starts:
        return replace(facts, state="running")
    return replace(facts, state="terminated", exit_code=code if facts.state == "running" else 128)


@given(st.data(), st.sampled_from(["Never", "OnFailure", "Always"]), st.integers(0, 2), st.integers(1, 3))
def test_phases_only_advance_and_a_pod_has_ended_once_no_container_can_change(
    data: st.DataObject, policy: str, inits: int, mains: int
) -> None:
    pod = [replace(WAITING, is_init=index < inits) for index in range(inits + mains)]
    phases = [pod_phase(pod, policy=policy)]
    assert phases == ["Pending"]
    for _ in range(20):
        able = moves(pod, policy)
        assert (phases[-1] in ("Succeeded", "Failed")) == (not able)
        if not able:
            break
        index = data.draw(st.sampled_from(able))
        code, starts = data.draw(st.sampled_from([0, 1, 143])), data.draw(st.booleans())
        pod[index] = move(pod[index], code=code, starts=starts)
        phases.append(pod_phase(pod, policy=policy))
    assert phases == sorted(phases, key=ORDER.index)


@given(st.integers(0, 40))
def test_the_restart_delay_grows_to_five_minutes(restarts: int) -> None:
    assert restart_delay_seconds(0) == 0
    assert restart_delay_seconds(1) == 10
    assert restart_delay_seconds(restarts) <= restart_delay_seconds(restarts + 1) <= 300
    assert restart_delay_seconds(40) == 300


def test_a_signal_sets_exit_code_128_plus_its_number() -> None:
    assert [exit_code_of(code) for code in (0, 3, -9, -15)] == [0, 3, 137, 143]


@pytest.mark.parametrize(
    ("containers", "ready", "initialized"),
    [
        ([WAITING], "False", "True"),
        ([RUNNING], "True", "True"),
        ([RUNNING, replace(RUNNING, is_ready=False)], "False", "True"),
        ([DONE], "False", "True"),
        ([init(RUNNING), WAITING], "False", "False"),
    ],
)
def test_conditions(containers: list[ContainerFacts], ready: str, initialized: str) -> None:
    conditions = {c["type"]: c["status"] for c in describe(*containers)["conditions"]}  # type: ignore[attr-defined]
    assert conditions == {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}


def test_status_has_addresses_and_containers_by_kind() -> None:
    found = describe(init(DONE), RUNNING)
    assert (found["podIP"], found["hostIP"], found["startTime"]) == ("127.9.9.1", "127.0.0.1", "then")
    assert [c["name"] for c in found["containerStatuses"]] == ["main"]  # type: ignore[attr-defined]
    assert [c["name"] for c in found["initContainerStatuses"]] == ["init"]  # type: ignore[attr-defined]
    assert "podIP" not in describe(WAITING, address="")
    assert "initContainerStatuses" not in describe(RUNNING)


def test_a_container_status_omits_unknown_values() -> None:
    ended = container_status(BROKEN)
    assert ended["state"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "message": "because",
        "startedAt": BROKEN.started_at,
        "finishedAt": BROKEN.finished_at,
        "containerID": "local://1",
    }
    assert (ended["ready"], ended["started"]) == (False, False)
    assert container_status(WAITING)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert container_status(AGAIN)["restartCount"] == 1
    assert (container_status(RUNNING)["ready"], container_status(RUNNING)["started"]) == (True, True)
