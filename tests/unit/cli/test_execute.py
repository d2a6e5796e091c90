"""`railhead exec` calls kubectl for the pod of the head or of a rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead.api.base import Object
from railhead.cli.execute import run_in_pod
from railhead.cli.main import parse_arguments
from railhead.cli.output import Console
from railhead.client.errors import ClientError
from tests.unit.client.jobs import make_job, make_pod

RUNNING: dict[str, Any] = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}
# Answers the question about a rank in the pod w1, and prints any other command.
KUBECTL = """#!/bin/sh
case "$*" in
*railhead-mark:begin:3:*) case "$*" in *" w1 "*) echo 17;; esac;;
*railhead-mark*) ;;
*) echo "$*"; exit 5;;
esac
"""


class FixedCluster:
    namespace = "team-a"

    def __init__(self, pods: list[Object]) -> None:
        self._pods = pods

    async def get_job(self, name: str) -> Object:
        return make_job(name)

    async def list_pods(self, uid: str) -> list[Object]:
        return self._pods


PODS = [make_pod("h", **RUNNING), *(make_pod(f"w{slot}", slot=slot, **RUNNING) for slot in range(2))]
OLD = make_pod("old", attempt=0, **RUNNING)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


async def execute(*arguments: str, pods: list[Object]) -> int:
    cluster: Any = FixedCluster(pods)
    return await run_in_pod(parse_arguments(["exec", "digits", *arguments]), cluster, Console())


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        (["--", "ls", "-l"], "exec -n team-a -i h -c ray -- ls -l"),
        (["--rank", "3", "--context", "c", "--", "top"], "exec -n team-a --context c -i w1 -c ray -- top"),
    ],
)
async def test_the_command_runs_in_the_pod_with_its_exit_code(
    arguments: list[str], called: str, kubectl: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await execute(*arguments, pods=[*PODS, OLD]) == 5
    assert capfd.readouterr().out == f"{called}\n"


@pytest.mark.parametrize(
    ("arguments", "pods", "message"),
    [
        ([], [], r"has no running head pod \(phase none\); run `railhead why digits`"),
        (["--rank", "0"], [make_pod("w0", slot=0)], "has no running worker pod"),
        (["--rank", "4"], PODS, "rank 4 runs in none of the worker pods w0, w1"),
    ],
)
async def test_a_pod_that_is_not_there_is_named(
    arguments: list[str], pods: list[Object], message: str, kubectl: None
) -> None:
    with pytest.raises(ClientError, match=message):
        await execute(*arguments, pods=pods)


async def test_without_kubectl_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClientError, match="needs kubectl"):
        await execute(pods=PODS)
