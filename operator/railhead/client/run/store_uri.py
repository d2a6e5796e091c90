"""Decides whether the reader's own credentials may be sent to the store that a job's author has chosen.

The author writes spec.run.storagePath, which may name any host. A reader who opens the run signs requests to that host,
or sends it a token. So only the clouds' own hosts and those that the reader has named are asked, and the URI is put
together again from the parts that were checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.contract.text import clean_line

# Where a reader names hosts: our own variable, and those by which AWS's programs find a server.
VARIABLE = "RAILHEAD_ENDPOINTS"
AWS_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
PORTS = {"http": 80, "https": 443}
HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
ENDPOINT = re.compile(rf"(?:(?P<scheme>[a-z]+)://)?(?P<host>{HOST})(?::(?P<port>[0-9]{{1,5}}))?/?")
URI = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<place>[^/?#\\\s]*)(?P<path>/[^?#\s]*)?(?:\?(?P<query>[^#\s]*))?")
# A bucket and a region become parts of a host's name: what else they contain could end that name.
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
WORD = re.compile(r"[A-Za-z0-9_-]+")
AWS = re.compile(r"s3(?:[.-][a-z0-9-]+){0,2}\.amazonaws\.com(?:\.cn)?")
SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
GOOGLE = "storage.googleapis.com"
AZURE = re.compile(r"(?P<account>[a-z0-9-]+)\.(?:blob|dfs)\.core\.windows\.net")
# Options that change no host and no protection of the way to it, and those that only matter to a writer.
HARMLESS = {
    "s3": ("smart_defaults", "allow_bucket_creation", "allow_bucket_deletion"),
    "gs": ("project_id", "retry_limit_seconds", "location"),
    "abfs": ("background_writes", "credential_kind"),  # the reader has other credentials than the job
}


@dataclass(frozen=True)
class StoreEndpoint:
    """A server of a store.

    Attributes:
        scheme: http or https.
    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        if self.port == PORTS[self.scheme]:
            return f"{self.scheme}://{self.host}"
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True)
class _Store:
    """A URI in its parts, and the options that it may have.

    Attributes:
        endpoint: where requests go; None for the cloud's own hosts, by TLS, or what this machine is configured for.
        options: the checked ones.
    """

    endpoint: StoreEndpoint | None
    options: Mapping[str, str]


class _NotUnderstood(ValueError):
    """The URI has a part that may lead elsewhere; the message names it."""


def read_endpoints(named: Sequence[str], environment: Mapping[str, str]) -> frozenset[StoreEndpoint]:
    """Returns the hosts that the reader has named by options and variables. Raises ClientError for one that is none."""
    listed = re.split(r"[\s,]+", environment.get(VARIABLE, ""))
    found = {parse_endpoint(name) for name in (*named, *listed) if name}
    for variable in AWS_VARIABLES:
        # It may be more than a host, which no spec can name.
        with suppress(ClientError):
            found.add(parse_endpoint(environment.get(variable, "")))
    return frozenset(found)


def parse_endpoint(text: str, *, scheme: str = "https") -> StoreEndpoint:
    """Returns the endpoint of `[SCHEME://]HOST[:PORT]`. Raises ClientError."""
    found = ENDPOINT.fullmatch(text)
    scheme = (found and found["scheme"]) or scheme
    if found is None or scheme not in PORTS or int(found["port"] or 1) not in range(1, 65536):
        raise ClientError(f"{clean_line(text)[:200]!r} is not [https://]HOST[:PORT]", ExitCode.USAGE)
    return StoreEndpoint(scheme, found["host"].lower(), int(found["port"] or PORTS[scheme]))


def check_store(uri: str, named: Iterable[StoreEndpoint]) -> str:
    """Returns the URI with nothing but checked parts.

    Raises:
        ClientError: it leads to a host that the reader has not named; the message says what to type.
    """
    try:
        scheme, place, path, options = _split(uri)
        store = _read_store(scheme, place, options)
        unknown = sorted(options.keys() - store.options.keys() - {*HARMLESS[_family(scheme)]})
        if unknown:
            raise _NotUnderstood(f"the option {clean_line(unknown[0])[:100]}")
    except _NotUnderstood as error:
        text = f"the job's storage has {error}, which may send your credentials to a host of its author's choice"
        raise ClientError(
            f"{text}; if you trust {clean_line(uri)}, pass its URI with --folder", ExitCode.DENIED
        ) from None
    if store.endpoint is not None and not _is_named(store.endpoint, named):
        raise ClientError(_refuse(store.endpoint), ExitCode.DENIED)
    if not store.options:
        return f"{scheme}://{place}{path}"
    return f"{scheme}://{place}{path}?{urlencode(store.options, quote_via=quote)}"


def _is_named(endpoint: StoreEndpoint, named: Iterable[StoreEndpoint]) -> bool:
    """Returns whether the reader has named it; with TLS also one that was named without."""
    for each in named:
        has_scheme = each.scheme == endpoint.scheme or (each.scheme, endpoint.scheme) == ("http", "https")
        if has_scheme and (each.host, each.port) == (endpoint.host, endpoint.port):
            return True
    return False


def _refuse(endpoint: StoreEndpoint) -> str:
    sent = "your own credentials would be sent there"
    if endpoint.scheme == "http":
        sent += " without encryption"
    remedy = f"if you trust that host, add --endpoint {endpoint}, or set {VARIABLE}={endpoint}"
    return f"the job's author has put the run at {endpoint}, and {sent}, so nothing was read; {remedy}"


def _split(uri: str) -> tuple[str, str, str, dict[str, str]]:
    """Returns scheme, place, path and options. Raises _NotUnderstood."""
    found = URI.fullmatch(uri)
    if found is None or found["scheme"] not in SCHEMES:
        raise _NotUnderstood("a URI of an unknown kind")
    pairs = parse_qsl(found["query"] or "", keep_blank_values=True)
    options = dict(pairs)
    if len(options) != len(pairs):
        raise _NotUnderstood("an option twice")
    return found["scheme"], found["place"], found["path"] or "", options


def _family(scheme: str) -> str:
    return {"gcs": "gs", "abfss": "abfs"}.get(scheme, scheme)


def _read_scheme(options: Mapping[str, str]) -> str:
    scheme = options.get("scheme") or "https"
    if scheme not in ("http", "https"):
        raise _NotUnderstood("a scheme that is neither http nor https")
    return scheme


def _read_override(options: Mapping[str, str]) -> StoreEndpoint | None:
    """Returns where endpoint_override leads. A scheme in it outranks the option."""
    text = options.get("endpoint_override", "")
    if not text:
        return None
    try:
        endpoint = parse_endpoint(text, scheme=_read_scheme(options))
    except ClientError:
        raise _NotUnderstood("an endpoint_override that is not a host") from None
    if endpoint.scheme not in ("http", "https"):
        raise _NotUnderstood("an endpoint_override that is not a host")
    return endpoint


def _pick(options: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: options[name] for name in names if name in options}


def _read_store(scheme: str, place: str, options: Mapping[str, str]) -> _Store:
    """Reads the part of a URI between its scheme and its path; `scheme` is one of SCHEMES."""
    if scheme == "s3":
        return _read_s3(place, options)
    if scheme in ("gs", "gcs"):
        return _read_gs(place, options)
    return _read_abfs(place, options)


def _read_s3(place: str, options: Mapping[str, str]) -> _Store:
    region = options.get("region", "")
    if not BUCKET.fullmatch(place):
        raise _NotUnderstood("a bucket that is not a plain name")
    if region and not WORD.fullmatch(region):
        raise _NotUnderstood("a region that is not a plain name")
    own = ".".join(part for part in ("s3", region, "amazonaws.com") if part)
    scheme = _read_scheme(options)
    endpoint = _read_override(options) or StoreEndpoint(scheme, own, PORTS[scheme])
    is_own = endpoint.scheme == "https" and endpoint.port == PORTS["https"] and AWS.fullmatch(endpoint.host)
    kept = _pick(options, "region", "scheme", "endpoint_override")
    return _Store(None if is_own else endpoint, kept)


def _read_gs(place: str, options: Mapping[str, str]) -> _Store:
    if not BUCKET.fullmatch(place.removeprefix("anonymous@")):
        raise _NotUnderstood("a bucket that is not a plain name")
    scheme = _read_scheme(options)
    endpoint = _read_override(options) or StoreEndpoint(scheme, GOOGLE, PORTS[scheme])
    is_own = endpoint == StoreEndpoint("https", GOOGLE, PORTS["https"])
    return _Store(None if is_own else endpoint, _pick(options, "scheme", "endpoint_override"))


def _read_abfs(place: str, options: Mapping[str, str]) -> _Store:
    """Reads `[CONTAINER@]ACCOUNT.dfs.core.windows.net`, `ACCOUNT@CONTAINER` and `ACCOUNT@HOST[:PORT]`."""
    user, _, host = place.rpartition("@")
    if user and not BUCKET.fullmatch(user):
        raise _NotUnderstood("an account that is not a plain name")
    tls = options.get("enable_tls", "true")
    if tls not in ("true", "false"):
        raise _NotUnderstood("an enable_tls that is neither true nor false")
    scheme = "https"
    if tls == "false":
        scheme = "http"
    server = host
    # A container, on Azure's own host of the account.
    if WORD.fullmatch(host):
        server = f"{user}.blob.core.windows.net"
    try:
        endpoint = parse_endpoint(server, scheme=scheme)
    except ClientError:
        raise _NotUnderstood("an account that is not a plain name") from None
    is_own = scheme == "https" and endpoint.port == PORTS["https"] and AZURE.fullmatch(endpoint.host)
    kept = _pick(options, "enable_tls")
    if options.get("credential_kind") == "anonymous":
        kept["credential_kind"] = "anonymous"
    return _Store(None if is_own else endpoint, kept)
