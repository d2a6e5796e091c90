"""One HTTP request to the API server. The only module that imports the package kubernetes.

Its `kubernetes.aio` reads kubeconfigs and service accounts, renews their tokens, and knows the
right TLS. Its documented API deserialises each response into a model, which takes seven times as
long as `json.loads`, and has no watch that survives a 410; its connection pool writes each body
with `json.dumps`, a tenth of the operator's time for a large gang. So this adapter sits below
both, on aiohttp. The protocols below declare what it uses of the package;
`tests/unit/kube/test_transport.py` compares them with the installed package.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger
from yaml import YAMLError

from railhead.kube.bodies import Body, encode

# The package's name for "Authorization: Bearer", or whatever the kubeconfig or service account uses instead.
AUTH_SETTINGS = ["BearerToken"]
MOST_CONNECTIONS = 100  # for requests that have one answer
NO_LIMIT = 0
# A list or an event may be larger than aiohttp's default buffer.
READ_BYTES = 2**21


class RestClient(Protocol):
    """kubernetes.aio's connection pool, of which only the TLS is used."""

    ssl_context: ssl.SSLContext


class Configuration(Protocol):
    """The address of the API server, and how to reach it. It also holds credentials, which only the package uses."""

    host: str
    proxy: str | None
    proxy_headers: Mapping[str, str] | None
    tls_server_name: str | None


class ApiClient(Protocol):
    """The parts of `kubernetes.aio.client.ApiClient` that are used."""

    configuration: Configuration
    rest_client: RestClient

    async def update_params_for_auth(
        self,
        headers: dict[str, str],
        queries: list[tuple[str, str]],
        auth_settings: list[str],
        resource_path: str,
        method: str,
        body: Body | None,
    ) -> None: ...


class Transport:
    """Sends requests as the configuration of `kubernetes.aio` says, through pools of connections."""

    def __init__(self, api: ApiClient, requests: aiohttp.ClientSession, streams: aiohttp.ClientSession) -> None:
        self._api = api
        self._requests = requests
        self._streams = streams

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: Body | None, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Returns when the headers have arrived; `path` includes the query. The caller checks the status.

        Raises aiohttp's errors, TimeoutError and OSError.
        """
        data = None
        if body is not None:
            data = encode(body)
        return await self._send(self._requests, method, path, headers=headers, data=data, timeout=timeout)

    async def open_stream(
        self, path: str, *, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Returns as `send` does, for a response that lasts, such as a watch: it takes no connection from requests."""
        return await self._send(self._streams, "GET", path, headers=headers, data=None, timeout=timeout)

    async def _send(
        self,
        pool: aiohttp.ClientSession,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        authorized = dict(headers)
        # On each request: adds the token, and reads it again first when it is about to expire.
        await self._api.update_params_for_auth(authorized, [], AUTH_SETTINGS, path, method, None)
        configuration = self._api.configuration
        return await pool.request(
            method,
            configuration.host + path,
            headers=authorized,
            data=data,
            timeout=timeout,
            proxy=configuration.proxy,
            proxy_headers=configuration.proxy_headers,
            server_hostname=configuration.tls_server_name or None,
        )


@asynccontextmanager
async def open_pools(api: ApiClient) -> AsyncIterator[Transport]:
    """Opens pools of connections with the TLS of the package's own pool. Each watched namespace has a stream."""
    async with _open_pool(api, most=MOST_CONNECTIONS) as requests, _open_pool(api, most=NO_LIMIT) as streams:
        yield Transport(api, requests, streams)


def _open_pool(api: ApiClient, *, most: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=api.rest_client.ssl_context, limit=most)
    # With trust_env, aiohttp would read the environment and ~/.netrc again for every request, in a thread.
    return aiohttp.ClientSession(connector=connector, read_bufsize=READ_BYTES, trust_env=False)


def find_proxy(url: str) -> str | None:
    """Returns the proxy that the environment names for this URL (HTTPS_PROXY, NO_PROXY and the like), if any."""
    address = urlsplit(url)
    # By the host name as well: an IPv6 address has brackets in `netloc`, and none in NO_PROXY.
    is_direct = proxy_bypass(address.netloc) or proxy_bypass(address.hostname or "")
    if is_direct:
        return None
    return getproxies().get(address.scheme)


ConfigException = kube_config.ConfigException  # a kubeconfig or a service account that cannot be used


def read_namespace(kubeconfig: str, context: str | None = None) -> str:
    """Returns the namespace of the kubeconfig's context (default: its current one), "" if the context names none.

    Raises:
        ConfigException: the file cannot be used, or has no such context.
    """
    with _explaining(kubeconfig):
        merged = KubeConfigMerger(kubeconfig)
        if not merged.paths:
            raise ConfigException(f"{kubeconfig} does not exist")
        known = [str(each["name"]) for each in merged.config.value["contexts"]]
        if context and context not in known:
            raise ConfigException(f"there is no context {context}; the kubeconfig has: {', '.join(known)}")
        active = KubeConfigLoader(merged.config, active_context=context).current_context
        return str((active["context"] or {}).get("namespace") or "")


@contextmanager
def _explaining(kubeconfig: str) -> Iterator[None]:
    """Turns what the package raises about a file of another form into a ConfigException."""
    try:
        yield
    except (YAMLError, OSError, TypeError, KeyError, AttributeError, ValueError) as error:
        raise ConfigException(f"{kubeconfig} is not a usable kubeconfig: {error}") from error


@asynccontextmanager
async def open_transport(kubeconfig: str | None, context: str | None = None) -> AsyncIterator[Transport]:
    """Opens a transport with the kubeconfig and its context, or with the pod's own service account.

    Raises:
        ConfigException: neither is available.
    """
    # Created here and passed to both: otherwise the loaders set a process-wide default, which
    # two clients with different credentials would share.
    configuration = kube_client.Configuration()
    if kubeconfig:
        # Without persist_config=False, a renewed token is written into the user's file.
        with _explaining(kubeconfig):
            await kube_config.load_kube_config(
                config_file=kubeconfig, context=context, client_configuration=configuration, persist_config=False
            )
    else:
        kube_config.load_incluster_config(client_configuration=configuration)
    configuration.proxy = configuration.proxy or find_proxy(configuration.host)
    try:
        async with kube_client.ApiClient(configuration=configuration) as api, open_pools(api) as transport:
            yield transport
    finally:
        # This lets the pool close its connections: TLS, transport, socket.
        for _ in range(3):
            await asyncio.sleep(0)
