"""Ray's dashboard beside a job: none of its problems is the job's, and the head's log has each."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from ray._private import services, utils, worker

from railhead.driver.ray.dashboard_process import choose_host, run_dashboard
from tests.unit.driver.pod.test_ray_start import POD


class Node:
    gcs_address = "10.0.0.7:23456"
    node_ip_address = "10.0.0.7"

    def get_gcs_client(self) -> Any:
        return SimpleNamespace(cluster_id=b"\x0a")

    def get_temp_dir_path(self) -> str:
        return "/t"

    def get_session_dir_path(self) -> str:
        return "/t/s"

    def get_logs_dir_path(self) -> str:
        return "/t/s/logs"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "get_dashboard_dependency_error", lambda: None)
    monkeypatch.setattr(worker, "global_worker", SimpleNamespace(node=Node()))


def test_without_its_packages_it_does_not_start(
    node: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = ModuleNotFoundError("No module named 'opencensus'")
    monkeypatch.setattr(utils, "get_dashboard_dependency_error", lambda: problem)
    monkeypatch.setattr(services, "start_api_server", None)
    run_dashboard(POD)
    out = capsys.readouterr().out
    assert "Ray's dashboard does not run: spec.image lacks packages that it needs (No module named 'opencensus')" in out
    assert "install ray[default] in the image" in out


def test_its_end_is_a_line_in_the_log(
    node: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {}

    def start(**arguments: Any) -> tuple[str, Any]:
        given.update(arguments)
        return "", SimpleNamespace(process=SimpleNamespace(wait=lambda: -9))

    monkeypatch.setattr(services, "start_api_server", start)
    run_dashboard(POD)
    assert (given["host"], given["port"], given["include_dashboard"]) == ("127.0.0.1", 8265, True)
    assert (given["cluster_id_hex"], given["logdir"]) == ("0a", "/t/s/logs")
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("Ray's dashboard runs; `railhead dashboard` opens it")
    assert "Ray's dashboard was killed by SIGKILL, as happens when the head pod runs out of memory" in second
    assert second.endswith("the job continues without it")


def test_a_dashboard_that_does_not_start_is_a_line_in_the_log(
    node: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(**_: Any) -> None:
        raise ValueError("Failed to bind to 127.0.0.1:8265 because it's already occupied")

    monkeypatch.setattr(services, "start_api_server", start)
    run_dashboard(POD)
    out = capsys.readouterr().out
    assert "Ray's dashboard does not run, and the job continues without it: ValueError: Failed to bind" in out


def test_pods_of_a_local_cluster_share_a_loopback(node: None, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = []

    def start(**arguments: Any) -> tuple[str, Any]:
        hosts.append(arguments["host"])
        return "", SimpleNamespace(process=SimpleNamespace(wait=lambda: 0))

    monkeypatch.setattr(services, "start_api_server", start)
    run_dashboard(replace(POD, ip="127.3.4.5"))
    assert hosts == ["127.3.4.5"]
    assert [choose_host(ip) for ip in ("10.0.0.7", "fd00::5", "::1")] == ["127.0.0.1", "127.0.0.1", "::1"]
