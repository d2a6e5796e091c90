"""The ports of a node's agents: free, different, and known to the raylet before the agents are."""

from __future__ import annotations

import errno
import inspect
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray._private import node, services
from ray.scripts.scripts import start

from railhead.driver.container.pod_processes import IDLE_AGENT, PROC, read_process_table
from railhead.driver.ray import daemons
from railhead.driver.ray.daemons import AGENT, AGENT_OPTION, FILES, OPTIONS, choose_ports, prepare_raylet
from tests.waiting import wait_until


def read_ports(options: list[str]) -> list[int]:
    assert [option.partition("=")[0] for option in options] == list(OPTIONS)
    return [int(option.partition("=")[2]) for option in options]


def test_ports_are_different_and_can_be_listened_on() -> None:
    ports = read_ports(choose_ports([]))
    assert len(set(ports)) == 4
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_anything_has_in_either_family_is_left_out(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="in use"):
                daemons._bind(port)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            pytest.skip("this machine has no ::1")
        raise


def test_a_kernel_without_ipv6_has_ports_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    assert len(set(read_ports(choose_ports([])))) == 4


def test_the_heads_own_port_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "LAST", daemons.FIRST + 1000)
    for port in range(daemons.FIRST, daemons.FIRST + 200):
        assert port not in read_ports(choose_ports(["start", f"--port={port}", "--head"]))


@pytest.mark.parametrize(("is_minimal", "ports"), [(False, (1, 2, 3)), (True, (-1, -1, -1))])
def test_raylet_finds_the_ports_in_its_files_when_it_starts(
    tmp_path: Path, is_minimal: bool, ports: tuple[int, ...]
) -> None:
    """Without `ray[default]` there are no such servers, and Ray would wait for them for 30 s."""
    seen: list[Any] = []

    def start_raylet(
        address: str,
        node_id: str,
        setup_worker_path: str,
        session_dir: str,
        metrics_agent_port: int,
        metrics_export_port: int,
        dashboard_agent_listen_port: int,
    ) -> list[str]:
        seen.append(Path(setup_worker_path).read_text())
        command: list[str] = services.start_ray_process(["raylet", f"{AGENT_OPTION}python ray/agent.py"], "raylet")
        return command

    services = SimpleNamespace(start_raylet=start_raylet, start_ray_process=lambda command, *_, **__: command)
    raylet = SimpleNamespace(persist_port=lambda *args: seen.append(args), **{name: name for name in FILES})
    prepare_raylet(services, raylet, is_minimal=is_minimal)
    given = dict(zip(FILES.values(), (1, 2, 3), strict=True))
    folder = str(tmp_path)
    command = services.start_raylet("10.0.0.1:6379", "node", "/ray/setup.py", session_dir=folder, **given)
    *persisted, setup = seen
    assert persisted == [(folder, "node", name, port) for name, port in zip(FILES, ports, strict=True)]
    assert setup.endswith("start_worker('/ray/setup.py')\n"), "which runs Ray's own program where it must"
    agent = f"{sys.executable} -I -S {tmp_path}/node-{IDLE_AGENT}" if is_minimal else "python ray/agent.py"
    assert command == ["raylet", AGENT_OPTION + agent]


def test_an_agent_without_servers_ends_with_its_raylet(tmp_path: Path) -> None:
    agent = tmp_path / IDLE_AGENT
    agent.write_text(AGENT)
    raylet = 'export RAY_RAYLET_PID=$$; "$1" -I -S "$2" & echo $!; wait'
    with subprocess.Popen(
        ["bash", "-c", raylet, "raylet", sys.executable, str(agent)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        wait_until("it runs", lambda: IDLE_AGENT in (PROC / str(pid) / "cmdline").read_text())
        process.kill()
        wait_until("it has ended", lambda: pid not in read_process_table())


def test_contract_rays_node_starts_its_raylet_where_we_replace_it() -> None:
    wanted = {"node_id", "session_dir", "setup_worker_path", *FILES.values()}
    assert wanted <= set(inspect.signature(services.start_raylet).parameters)
    assert "ray._private.services.start_raylet(" in inspect.getsource(node.Node.start_raylet)


def test_contract_ray_start_takes_the_ports() -> None:
    assert {name for option in start.params for name in option.opts} >= set(OPTIONS)


def test_a_ray_start_that_needs_another_command_is_imported_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a later Ray might: a pod that starts more slowly is better than one that does not start."""
    (tmp_path / "its_scripts.py").write_text("import its_command\n")
    (tmp_path / "its_command.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(daemons, "SCRIPTS", "its_scripts")
    monkeypatch.setattr(daemons, "OTHER_COMMANDS", ("its_command",))
    scripts = daemons.import_scripts()
    assert scripts.its_command is sys.modules["its_command"] is not None


def test_ray_start_stops_before_it_kills_a_head_but_not_before_a_graceful_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for a `ray start` that has failed, and Ray's own end of it is graceful."""
    calls: list[object] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: calls.append((pid, number)))
    stopping = daemons.stop_instead(lambda node, **options: calls.append(options))
    node = SimpleNamespace(dead_processes=lambda: [("gcs_server", SimpleNamespace(returncode=1))])
    stopping(node, check_alive=False, allow_graceful=True)
    assert calls == [{"check_alive": False, "allow_graceful": True}] and capsys.readouterr().out == ""
    stopping(node, check_alive=False, allow_graceful=False)
    assert calls[1:] == [(os.getpid(), signal.SIGSTOP), {"check_alive": False, "allow_graceful": False}]
    assert capsys.readouterr().out == "Ray's head has lost a process: gcs_server exited with code 1\n"


@pytest.mark.parametrize("are_on", [False, True])
def test_servers_that_nobody_uses_are_left_out(monkeypatch: pytest.MonkeyPatch, *, are_on: bool) -> None:
    """The dashboard's process without the dashboard is for usage statistics, which users may switch on."""
    monkeypatch.setenv(daemons.STATISTICS, "1" if are_on else "0")
    original = node.Node.start_api_server
    for name in ("start_ray_client_server", "start_api_server", "kill_all_processes"):
        monkeypatch.setattr(node.Node, name, getattr(node.Node, name))
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr("ray.scripts.scripts.main", lambda: None)
    monkeypatch.setattr(services, "start_raylet", services.start_raylet)
    daemons.run_ray(["start", "--head"])
    assert (node.Node.start_api_server is original) == are_on
    if not are_on:
        node.Node.start_api_server(None, include_dashboard=False, raise_on_failure=True)


def test_reports_what_a_newer_ray_start_lacks_and_starts_it_unchanged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(node.Node, "start_ray_client_server", None)
    monkeypatch.setattr(node.Node, "start_api_server", None)
    monkeypatch.setattr(node.Node, "kill_all_processes", node.Node.kill_all_processes)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr("ray.scripts.scripts.main", lambda: seen.append(sys.argv))
    monkeypatch.setattr(start, "params", [each for each in start.params if OPTIONS[0] not in each.opts])
    before = services.start_raylet
    daemons.run_ray(["start", "--head"])
    assert seen == [["ray", "start", "--head"]] and services.start_raylet is before
    assert f"ray start has no {OPTIONS[0]}" in capsys.readouterr().out
