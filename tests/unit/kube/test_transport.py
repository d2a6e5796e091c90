"""Undocumented behaviour of the package kubernetes that the adapter relies on.

A failure here means that the installed release differs: change `operator/railhead/kube/transport.py`.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config
from kubernetes.aio.config import incluster_config

from railhead.kube.transport import (
    AUTH_SETTINGS,
    ApiClient,
    ConfigException,
    Transport,
    find_proxy,
    open_pools,
    open_transport,
    read_namespace,
)
from railhead.pki import issue, make_ca
from tests.unit.kube.api_stub import make_api

TIMEOUT = aiohttp.ClientTimeout(total=20)


def explain(what: str) -> str:
    return f"kubernetes {version('kubernetes')} has changed: {what}. Adapt operator/railhead/kube/transport.py"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.mark.parametrize(
    ("protocol", "real"),
    [
        (ApiClient.update_params_for_auth, kube_client.ApiClient.update_params_for_auth),
    ],
)
def test_the_packages_methods_accept_what_the_protocols_declare(
    protocol: Callable[..., Any], real: Callable[..., Any]
) -> None:
    declared = inspect.signature(protocol).parameters.values()
    positional = [p.name for p in declared if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = {p.name: None for p in declared if p.kind is p.KEYWORD_ONLY}
    name = f"{real.__qualname__}{inspect.signature(real)}"
    assert inspect.iscoroutinefunction(real), explain(f"{name} is no coroutine function")
    try:
        bound = inspect.signature(real).bind(*positional, **named)
    except TypeError as error:
        pytest.fail(explain(f"{name}: {error}"))
    in_place = [key for key, value in bound.arguments.items() if key == value]
    assert in_place == positional, explain(f"{name} has its arguments in another order")


@pytest.mark.parametrize(
    ("real", "names"),
    [
        (kube_client.ApiClient, {"configuration"}),
        (kube_config.load_kube_config, {"config_file", "context", "client_configuration", "persist_config"}),
        (kube_config.load_incluster_config, {"client_configuration"}),
    ],
)
def test_the_packages_functions_have_the_named_arguments(real: Callable[..., Any], names: set[str]) -> None:
    known = inspect.signature(real).parameters
    assert names <= known.keys(), explain(f"{real.__qualname__} does not accept {names - known.keys()}")


class Echo:
    """A server that records requests and responds with `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.sent: list[tuple[str, dict[str, str], bytes]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.sent.append((request.raw_path, dict(request.headers), await request.read()))
        return web.Response(status=self.status, text="answer")


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def host(echo: Echo) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo.handle)
    server = TestServer(app)
    await server.start_server()
    yield str(server.make_url("")).rstrip("/")
    await server.close()


def write_kubeconfig(path: Path, host: str, token: str) -> str:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": host}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def send(transport: Transport, *, status: int = 200) -> None:
    response = await transport.send("GET", "/x", headers={}, body=None, timeout=TIMEOUT)
    async with response:
        assert response.status == status


async def test_a_request_is_sent_unchanged_and_its_response_is_aiohttps(echo: Echo, host: str) -> None:
    echo.status = 500
    async with make_api(host) as api, open_pools(api) as transport:
        headers = {"Content-Type": "application/json-patch+json", "User-Agent": "railhead"}
        response = await transport.send("PATCH", "/x?a=b%26c", headers=headers, body=[{}], timeout=TIMEOUT)
        assert (response.status, await response.read()) == (500, b"answer")
    [(path, sent, body)] = echo.sent
    assert (path, body) == ("/x?a=b%26c", b"[{}]"), explain("a request is not sent unchanged")
    assert sent.items() >= headers.items(), explain("headers are not sent unchanged")


async def test_a_kubeconfigs_token_is_sent_and_two_clients_do_not_share_it(
    echo: Echo, host: str, tmp_path: Path
) -> None:
    one, two = (write_kubeconfig(tmp_path / name, host, name) for name in ("one", "two"))
    async with open_transport(one) as first, open_transport(two) as second:
        await send(first)
        await send(second)
        await send(first)
    tokens = [headers.get("Authorization") for _, headers, _ in echo.sent]
    assert tokens == ["Bearer one", "Bearer two", "Bearer one"], explain("credentials are shared or not sent")
    assert kube_client.Configuration._default is None, explain("a configuration became the process's default")


async def test_a_service_accounts_token_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes replaces it about once an hour; the first one would be rejected from then on."""
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    ca.write_text("not used")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    configuration = kube_client.Configuration()
    kube_config.load_incluster_config(client_configuration=configuration)
    configuration.ssl_ca_cert = None

    async def header(api: ApiClient) -> str:
        headers: dict[str, str] = {}
        await api.update_params_for_auth(headers, [], AUTH_SETTINGS, "/x", "GET", None)
        return headers.get("authorization", "").removeprefix("bearer ")

    async with kube_client.ApiClient(configuration=configuration) as api:
        assert await header(api) == "first", explain("a service account's token is not sent")
        token.write_text("second")
        now = datetime.now() + timedelta(minutes=2)
        later = SimpleNamespace(datetime=SimpleNamespace(now=lambda: now), timedelta=timedelta)
        monkeypatch.setattr(incluster_config, "datetime", later)
        assert await header(api) == "second", explain("a service account's token is not read again within two minutes")


async def test_a_request_reads_neither_the_environment_nor_netrc(
    echo: Echo, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohttp's default costs a third of the operator's time with many jobs."""
    kubeconfig = write_kubeconfig(tmp_path / "config", host, "token")
    async with open_transport(kubeconfig) as transport:
        monkeypatch.setattr(aiohttp.client, "get_env_proxy_for_url", lambda *_: pytest.fail("read again"))
        await send(transport)
    assert echo.sent[-1][1]["Authorization"] == "Bearer token"


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://10.0.0.1:443", "http://proxy:3128"),
        ("https://api.example:6443", None),
        ("http://10.0.0.1:8001", None),
        ("https://[fd00::2]:443", "http://proxy:3128"),
        ("https://[fd00::1]:443", None),
    ],
)
def test_the_proxy_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str | None) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "example,127.0.0.1,fd00::1")
    assert find_proxy(url) == proxy


async def test_requests_go_through_the_proxy(
    echo: Echo, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", host)
    kubeconfig = write_kubeconfig(tmp_path / "config", "http://api.example", "token")
    async with open_transport(kubeconfig) as transport:
        await send(transport)
    assert echo.sent[-1][1]["Host"] == "api.example"


@pytest.mark.parametrize(("name", "is_trusted"), [("api.internal", True), ("other.internal", False), ("", False)])
async def test_the_servers_certificate_is_checked_by_the_kubeconfigs_ca_and_name(
    echo: Echo, tmp_path: Path, name: str, is_trusted: bool
) -> None:
    now = datetime.now(UTC)
    ca = make_ca("ca", now=now, days=1)
    pair = issue(ca, "api", now=now, days=1, names=["api.internal"])
    files = {"ca.crt": ca.certificate, "api.crt": pair.certificate, "api.key": pair.key}
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "api.crt", tmp_path / "api.key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo.handle)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    path = Path(write_kubeconfig(tmp_path / "config", f"https://127.0.0.1:{server.port}", "token"))
    config = yaml.safe_load(path.read_text())
    config["clusters"][0]["cluster"] |= {"certificate-authority": str(tmp_path / "ca.crt"), "tls-server-name": name}
    path.write_text(yaml.safe_dump(config))
    try:
        async with open_transport(str(path)) as transport:
            if is_trusted:
                await send(transport)
            else:
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await send(transport)
    finally:
        await server.close()
    assert bool(echo.sent) is is_trusted


def test_a_context_that_is_named_needs_no_current_one(tmp_path: Path) -> None:
    config = yaml.safe_load(Path(write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", "t")).read_text())
    name = config.pop("current-context")
    config["contexts"][0]["context"]["namespace"] = "team-b"
    path = tmp_path / "without"
    path.write_text(yaml.safe_dump(config))
    assert read_namespace(str(path), name) == "team-b"
    with pytest.raises(ConfigException, match=f"there is no context other; the kubeconfig has: {name}"):
        read_namespace(str(path), "other")


@pytest.mark.parametrize("text", [None, "", "text", "a: [", "clusters: 7", "contexts: [{}]"])
def test_a_file_that_is_no_kubeconfig_is_named(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigException, match=str(path)):
        read_namespace(str(path))
