"""A pod is ready while its readiness probe succeeds, and only then do its Services resolve to it."""

from __future__ import annotations

import sys
from pathlib import Path

from railhead.local.node.agent import Agent
from railhead.local.node.container import build_url
from railhead.local.session import Capacity
from tests.model.api_server import Object
from tests.model.client import ModelClient, make_client
from tests.unit.local.node.pods import bind, make_pod, statuses, until

# Responds with 200 while the file named by its first argument exists, else with 404.
SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists(sys.argv[1]) else 404)
        self.end_headers()
    def log_message(self, *words): pass
http.server.HTTPServer((sys.argv[2], 8080), Handler).serve_forever()
"""
PROBE = {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 0.05, "failureThreshold": 1}
SERVICE = {
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "team", "uid": "s"},
    "spec": {"selector": {"app": "web"}},
}


def make_server(flag: Path) -> Object:
    container = {
        "name": "main",
        "command": [sys.executable, "-c", SERVER, str(flag), "$(POD_IP)"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "probes", "containerPort": 8080}],
        "readinessProbe": PROBE,
    }
    pod = make_pod("web", container)
    return {**pod, "metadata": {**pod["metadata"], "labels": {"app": "web"}}}


def is_ready(client: ModelClient) -> bool:
    found = statuses(client, "web")
    conditions = found[-1]["conditions"] if found else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def test_a_service_resolves_to_a_pod_while_its_probe_succeeds(tmp_path: Path) -> None:
    client, flag = make_client(), tmp_path / "flag"
    agent = Agent(client, Capacity(8, 2**30, 0))
    hosts = agent.folder / "hosts"
    try:
        agent.services.record_write(client.api.put(SERVICE))
        bind(agent, client, make_server(flag))
        await until(lambda: statuses(client, "web"))
        assert not is_ready(client)
        assert hosts.read_text() == ""
        flag.touch()
        await until(lambda: is_ready(client))
        [runner] = agent.runners.values()
        assert hosts.read_text() == f"{runner.place.address} web.team.svc\n"
        flag.unlink()
        await until(lambda: not is_ready(client))
        assert hosts.read_text() == ""
    finally:
        await agent.close()


def test_a_probes_port_may_have_a_name() -> None:
    container = {"ports": [{"name": "probes", "containerPort": 8080}]}
    get = {"port": "probes", "path": "/readyz"}
    assert build_url(container, get, address="127.9.9.9") == "http://127.9.9.9:8080/readyz"
    assert build_url(container, {"port": 1, "scheme": "HTTPS"}, address="127.9.9.9") == "https://127.9.9.9:1/"
