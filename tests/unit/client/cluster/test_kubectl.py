"""Commands in a pod by kubectl, and the pods for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.client.cluster import kubectl
from railhead.client.cluster.connection import Target
from railhead.client.cluster.job_snapshot import PodState, read_pod
from railhead.client.cluster.kubectl import ask_pod, build_exec, find_pods
from railhead.client.exit_codes import ClientError
from railhead.json_object import Object
from tests.unit.client.jobs import make_condition, make_job, make_pod


def make_cluster(target: Target) -> Any:
    return SimpleNamespace(namespace="a", target=target)


def test_the_options_of_the_cluster_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClientError, match="needs kubectl on the PATH"):
        build_exec(make_cluster(Target()))
    program = tmp_path / "kubectl"
    program.touch(0o755)
    assert build_exec(make_cluster(Target())) == (str(program), "exec", "-n", "a")
    assert build_exec(make_cluster(Target("f", "c")))[4:] == ("--kubeconfig", "f", "--context", "c")


RUNNING: Object = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}


class FixedCluster:
    def __init__(self, *pods: Object, phase: str = "Running") -> None:
        self._pods, self._phase = pods, phase

    async def get_job(self, name: str) -> Object:
        conditions = [make_condition("Complete", "Succeeded")] if self._phase == "Succeeded" else []
        return make_job(name, phase=self._phase, conditions=conditions)

    async def list_pods(self, uid: str) -> list[PodState]:
        return list(map(read_pod, self._pods))


async def find(*pods: Object, phase: str = "Running") -> list[str]:
    cluster: Any = FixedCluster(*pods, phase=phase)
    return await find_pods(cluster, "digits", "head")


async def test_the_head_of_the_newest_attempt_is_found() -> None:
    worker = make_pod("w", slot=0, attempt=2, **RUNNING)
    assert await find(make_pod("old", **RUNNING), make_pod("new", attempt=2, **RUNNING), worker) == ["new"]


@pytest.mark.parametrize(
    ("phase", "remedy"),
    [("Pending", "run `railhead why digits`"), ("Succeeded", "`railhead logs digits` has what it printed")],
)
async def test_without_such_a_pod_the_message_says_what_helps(phase: str, remedy: str) -> None:
    with pytest.raises(ClientError, match=rf"digits has no running head pod \(phase {phase}\); {remedy}"):
        await find(make_pod("h"), phase=phase)


async def test_local_mode_runs_no_commands_in_pods() -> None:
    with pytest.raises(ClientError, match="local mode runs no commands in pods"):
        await find(make_pod("h", hostIP="127.0.0.1", **RUNNING))


async def test_a_command_answers_or_fails_with_its_own_words() -> None:
    assert await ask_pod(("echo",), "h", ["ls"]) == "h -c ray -- ls\n"
    fails = ("sh", "-c", "echo 'no such\x1bthing' >&2; echo command terminated with exit code 1 >&2; exit 1")
    with pytest.raises(ClientError, match=r"^pod h: no such\ufffdthing$"):
        await ask_pod(fails, "h", ["ls"])
    with pytest.raises(ClientError, match=r"^pod h: exit code 3$"):
        await ask_pod(("sh", "-c", "exit 3"), "h", ["ls"])


async def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl, "OUTPUT_BYTES", 1 << 20)
    with pytest.raises(ClientError, match="pod h prints more than 1 MiB"):
        await ask_pod(("sh", "-c", "exec cat /dev/zero"), "h", ["ls"])
