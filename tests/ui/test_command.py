"""`railhead ui` itself, from its start against an API server to Ctrl-C."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import urllib.request
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from railhead.cli.main import main
from railhead.client.exit_codes import ExitCode
from tests.unit.cli.api_server import serve
from tests.unit.client.ui.test_cluster_source import Answers


async def start(kubeconfig: str, *arguments: str) -> Process:
    command = (sys.executable, "-m", "railhead.cli", "ui", "--kubeconfig", kubeconfig, *arguments)
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)


def load(address: str) -> tuple[int, str]:
    """Opens the address as a browser does, which keeps the cookie."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(address) as answer:
        return answer.status, answer.read().decode()


async def test_the_command_prints_the_address_serves_the_page_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    async with serve(Answers().answer, tmp_path) as kubeconfig:
        process = await start(kubeconfig, "--port", "0", "--storage", str(tmp_path))
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
        status, text = await asyncio.to_thread(load, address)
        process.send_signal(signal.SIGINT)
        output, errors = await process.communicate()
    assert status == 200
    assert "namespace team-a" in text
    assert "/runs/0" in text
    assert process.returncode == ExitCode.INTERRUPTED
    assert output == b""
    assert errors.decode().splitlines() == [
        "railhead: open this address in a browser of this machine; Ctrl-C ends the page"
    ]


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with serve(Answers().answer, tmp_path) as kubeconfig:
            process = await start(kubeconfig, "--port", str(port))
            _, errors = await process.communicate()
    assert process.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in errors.decode()
    assert "choose another --port" in errors.decode()


def test_without_its_package_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}], "
        "contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c}"
    )
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in [name for name in sys.modules if name.startswith("railhead.client.ui")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["ui", "--kubeconfig", str(tmp_path / "config")]) == 1
    assert "pip install 'railhead-train[ui]'" in capsys.readouterr().err
