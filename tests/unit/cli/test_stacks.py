"""`railhead stacks` asks the head pod, and prints what it answers."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from railhead.api.base import Object
from railhead.cli.main import parse_arguments
from railhead.cli.output import Console
from railhead.cli.stacks import show_stacks
from railhead.client.errors import ClientError
from tests.unit.client.jobs import make_pod, make_running

RUNNING: Object = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}
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


class FixedCluster:
    namespace = "team-a"

    async def get_job(self, name: str) -> Object:
        return make_running()

    async def list_pods(self, uid: str) -> list[Object]:
        return [make_pod("h", **RUNNING), make_pod("w0", slot=0, **RUNNING)]


async def show(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> str:
    (folder / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    cluster: Any = FixedCluster()
    stream = io.StringIO()
    assert await show_stacks(parse_arguments(["stacks", "digits", *arguments]), cluster, Console(stream)) == 0
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
