"""One HTTP request to the API server. The only module that imports the package kubernetes.

Its `kubernetes.aio` reads kubeconfigs and service accounts, renews their tokens, and has a
connection pool with the right TLS. Its documented API deserialises each response into a model,
which takes seven times as long as `json.loads`, and has no watch that survives a 410. So this
adapter sits below that API. The protocols below declare what it uses there;
`tests/unit/kube/test_transport.py` compares them with the installed package.
"""

from __future__ import annotations

import asyncio
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

from railhead.kube.bodies import Body

# The package's name for "Authorization: Bearer", or whatever the kubeconfig or service account uses instead.
AUTH_SETTINGS = ["BearerToken"]


class Response(Protocol):
    """kubernetes.aio's wrapper of aiohttp's response, which is all that is used; its body is not read yet."""

    @property
    def response(self) -> aiohttp.ClientResponse: ...


class RestClient(Protocol):
    """kubernetes.aio's connection pool. It does not raise for a status of 400 or more."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: Body | None,
        _request_timeout: aiohttp.ClientTimeout,
    ) -> Response: ...


class Configuration(Protocol):
    """The address of the API server. It also holds TLS and credentials, which only the package uses."""

    host: str


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
    """Sends a request by `kubernetes.aio`."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: Body | None, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Returns when the headers have arrived; `path` includes the query. The caller checks the status.

        Raises aiohttp's errors, TimeoutError and OSError.
        """
        authorized = dict(headers)
        # On each request: adds the token, and reads it again first when it is about to expire.
        await self._api.update_params_for_auth(authorized, [], AUTH_SETTINGS, path, method, body)
        # Not by `call_api`: here an encoded query stays unchanged, and no status raises.
        url = self._api.configuration.host + path
        answer = await self._api.rest_client.request(
            method, url, headers=authorized, body=body, _request_timeout=timeout
        )
        return answer.response


def find_proxy(url: str) -> str | None:
    """The proxy that the environment names for this URL (HTTPS_PROXY, NO_PROXY and the like), if any."""
    address = urlsplit(url)
    is_direct = proxy_bypass(address.netloc) or proxy_bypass(address.hostname or "")  # the latter: IPv6 in no brackets
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
    # aiohttp would read the environment and ~/.netrc again for every request, in a thread.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.proxy = configuration.proxy or find_proxy(configuration.host)
    try:
        async with kube_client.ApiClient(configuration=configuration) as api:
            yield Transport(api)
    finally:
        for _ in range(3):  # lets the pool close its connections: TLS, transport, socket
            await asyncio.sleep(0)
