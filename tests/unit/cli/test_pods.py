"""`railhead exec` and `stacks` call kubectl for the pod of the head or of a rank."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from railhead.cli.output import Console
from railhead.cli.parser import parse_arguments
from railhead.cli.pods import do_exec, do_stacks
from railhead.client.cluster.connection import Target
from railhead.client.cluster.job_snapshot import PodState, read_pod
from railhead.client.exit_codes import ClientError
from railhead.json_object import Object
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

    def __init__(self, pods: list[Object], context: str | None = None) -> None:
        self._pods = pods
        self.target = Target(context=context)

    async def get_job(self, name: str) -> Object:
        return make_job(name)

    async def list_pods(self, uid: str) -> list[PodState]:
        return list(map(read_pod, self._pods))


PODS = [make_pod("h", **RUNNING), *(make_pod(f"w{slot}", slot=slot, **RUNNING) for slot in range(2))]
OLD = make_pod("old", attempt=0, **RUNNING)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


async def execute(*arguments: str, pods: list[Object]) -> int:
    options = parse_arguments(["exec", "digits", *arguments])
    cluster: Any = FixedCluster(pods, options.context)
    return await do_exec(options, cluster, Console())


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


HOSTILE = "load\x1b[2J"
ANSWER = [
    {"rank": rank, "pod": f"w{rank}", "place": f"at t.py:{line} in {HOSTILE}", "text": f"Thread\n  File {HOSTILE}\n"}
    for rank, line in enumerate((9, 9, 4))
]
TABLE = """\
rank 2 (pod w2): at t.py:4 in load\ufffd[2J
  Thread
    File load\ufffd[2J
ranks 0-1: at t.py:9 in load\ufffd[2J
  Thread
    File load\ufffd[2J
"""


async def show(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> str:
    (folder / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    cluster: Any = FixedCluster(PODS)
    stream = io.StringIO()
    assert await do_stacks(parse_arguments(["stacks", "digits", *arguments]), cluster, Console(stream)) == 0
    return stream.getvalue()


async def test_each_stack_is_printed_once_without_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = 'exec -n team-a h -c ray -- sh -c exec python3 -I -S "$RAILHEAD_BUNDLE" stacks'
    script = f'[ "$*" = {shlex.quote(expected)} ] && printf %s {shlex.quote(json.dumps(ANSWER))}'
    assert await show(tmp_path, monkeypatch, script) == TABLE
    printed = await show(tmp_path, monkeypatch, script, "-o", "json")
    assert json.loads(printed) == {"ranks": ANSWER}
    assert printed.isascii()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("no rank trains yet, or none any more", "pod h: no rank trains yet"),
        ("railhead: unknown role 'stacks'; this is", "digits runs since an older Railhead, without this command"),
    ],
)
async def test_the_heads_refusal_is_the_message(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClientError, match=message):
        await show(tmp_path, monkeypatch, f"echo {shlex.quote(words)} >&2; exit 1")
