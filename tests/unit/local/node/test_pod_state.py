"""From facts to a status: phases only advance, and an ended pod is final."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.local.node.pod_state import (
    ContainerFacts,
    build_status,
    container_status,
    exit_code_of,
    must_restart,
    pod_phase,
    restart_delay_seconds,
)

ORDER = ["Pending", "Running", "Succeeded", "Failed"]
WAITING = ContainerFacts(name="main", image="i")
RUNNING = replace(WAITING, state="running", reason="", started_at="2026-01-01T00:00:00Z", container_id="local://1")
DONE = replace(RUNNING, state="terminated", reason="Completed", finished_at="2026-01-01T00:00:09Z")
BROKEN = replace(DONE, reason="Error", exit_code=3, message="because")
AGAIN = replace(BROKEN, state="waiting", reason="CrashLoopBackOff", restarts=1)


def init(facts: ContainerFacts) -> ContainerFacts:
    return replace(facts, name="init", is_init=True)


def status(*containers: ContainerFacts, policy: str = "Never", address: str = "127.9.9.1") -> dict[str, object]:
    return build_status(
        containers, policy=policy, address=address, node_address="127.0.0.1", start_time="then", now="now"
    )


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
    conditions = {c["type"]: c["status"] for c in status(*containers)["conditions"]}  # type: ignore[attr-defined]
    assert conditions == {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}


def test_status_has_addresses_and_containers_by_kind() -> None:
    found = status(init(DONE), RUNNING)
    assert (found["podIP"], found["hostIP"], found["startTime"]) == ("127.9.9.1", "127.0.0.1", "then")
    assert [c["name"] for c in found["containerStatuses"]] == ["main"]  # type: ignore[attr-defined]
    assert [c["name"] for c in found["initContainerStatuses"]] == ["init"]  # type: ignore[attr-defined]
    assert "podIP" not in status(WAITING, address="")
    assert "initContainerStatuses" not in status(RUNNING)


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
