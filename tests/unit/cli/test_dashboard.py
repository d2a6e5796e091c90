"""`railhead dashboard`: what it prints, and that Ray's token gets onto a terminal only."""

from __future__ import annotations

import io
import webbrowser
from collections.abc import Callable
from typing import Any

import pytest

from railhead.cli import dashboard as command
from railhead.cli.output import Console
from railhead.cli.parser import parse_arguments
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.dashboard_forward import Dashboard, Use
from railhead.client.exit_codes import ClientError, ExitCode

ADDRESS = "http://127.0.0.1:8265"
TOKEN = "0123456789abcdef"


class FixedCluster:
    namespace = "team-a"

    def __init__(self, error: ClientError | None) -> None:
        self._error = error

    async def read_secret(self, name: str, key: str) -> str:
        assert (name, key) == ("digits-auth", "token")
        if self._error is not None:
            raise self._error
        return TOKEN


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Show = Callable[..., Any]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Runs the command with these arguments; returns its output."""
    ports = []

    async def find(cluster: Cluster, name: str) -> Dashboard:
        assert name == "digits"
        return Dashboard(name, "digits-head", "digits-auth")

    async def open_(cluster: Cluster, dashboard: Dashboard, port: int, use: Use) -> None:
        ports.append(port)
        await use(ADDRESS)

    async def run(stream: io.StringIO, *flags: str, error: ClientError | None = None) -> str:
        monkeypatch.setattr(command, "find_dashboard", find)
        monkeypatch.setattr(command, "open_dashboard", open_)
        cluster: Any = FixedCluster(error)
        options = parse_arguments(["dashboard", "digits", *flags])
        assert await command.do_dashboard(options, cluster, Console(stream)) == 0
        assert ports == [8265]
        ports.clear()
        return stream.getvalue()

    return run


async def test_a_terminal_gets_the_token(show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    assert await show(Terminal()) == f"{ADDRESS}\ntoken: {TOKEN}\n"
    said = capsys.readouterr().err
    assert "whoever has it can run code in the job's pods" in said and "Ctrl-C ends the forward" in said
    assert TOKEN not in said


async def test_a_pipe_gets_the_command_for_it(show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    assert await show(io.StringIO()) == f"{ADDRESS}\n"
    said = capsys.readouterr().err
    assert "kubectl get secret digits-auth -n team-a -o jsonpath='{.data.token}' | base64 -d" in said
    assert TOKEN not in said


async def test_without_the_right_to_read_it_the_page_still_opens(
    show: Show, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = ClientError("cannot read the Secret digits-auth in namespace team-a: no", ExitCode.DENIED)
    assert await show(Terminal(), error=denied) == f"{ADDRESS}\n"
    assert "the page asks for Ray's token: cannot read the Secret digits-auth" in capsys.readouterr().err


@pytest.mark.parametrize("is_found", [True, False])
async def test_it_is_opened_in_the_browser_on_request_and_its_address_has_no_token(
    show: Show, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_found: bool
) -> None:
    opened = []

    def open_browser(address: str) -> bool:
        opened.append(address)
        return is_found

    monkeypatch.setattr(webbrowser, "open", open_browser)
    await show(Terminal())
    assert opened == []
    assert await show(Terminal(), "--open") == f"{ADDRESS}\ntoken: {TOKEN}\n"
    assert opened == [ADDRESS]
    assert ("no browser that --open could use" in capsys.readouterr().err) is not is_found
