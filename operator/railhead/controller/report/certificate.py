"""The report endpoint's certificate and the CA behind it.

Drivers trust the CA for a job's whole lifetime, so it is kept in a Secret and survives restarts
of the operator; a new server certificate is issued from it when a name is missing or the old one
expires soon. All replicas of the operator serve the same certificate: the first one that finds it
missing or old issues it, and the others use the stored one.

Or the certificate comes from a folder, such as a mounted Secret of cert-manager. The operator then
issues none and needs no rights on Secrets. It presents the one in the folder and checks it for
changes, because the kubelet updates the folder when the Secret changes.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Gone, KubeError
from railhead.kube.kinds import SECRET
from railhead.pki import Pair, expires, has_names, issue, make_ca
from railhead.resources.base import NO_METADATA, CommonMetadata, build_shared_metadata

log = logging.getLogger(__name__)
SECRET_NAME = "railhead-report-tls"
CA_DAYS = 3650
SERVER_DAYS = 365
RENEW_DAYS = 60
CHECK_SECONDS = 24 * 3600.0
CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"
CA_FILE = "ca.crt"
CHECK_FOLDER_SECONDS = 60.0


@dataclass(frozen=True)
class Certificates:
    """The CA that drivers trust, and the certificate that the server presents."""

    ca: Pair
    server: Pair


class BadFolder(RuntimeError):
    """The folder holds no usable certificate; the message says what is wrong and what to do."""


def derive_token_key(certificates: Certificates) -> bytes:
    """Returns a key that all replicas share, also after a restart: from the CA's, or where its issuer keeps it the
    server's."""
    # The same key after each renewal of the server's certificate, or the tokens of running Ray clusters would change.
    key = certificates.ca.key or certificates.server.key
    return hmac.new(key.encode(), b"tokens of Ray clusters", "sha256").digest()


async def ensure_certificates(
    client: KubeClient, namespace: str, names: Sequence[str], common: CommonMetadata = NO_METADATA
) -> Certificates:
    """Returns the stored certificates, created or renewed first where needed. Two operators end up with the same
    ones."""
    now = datetime.now(UTC)
    try:
        stored = await client.get(SECRET, SECRET_NAME, namespace=namespace)
    except Gone:
        ca = make_ca("railhead-report-ca", now=now, days=CA_DAYS)
        made = Certificates(ca, _make_server(ca, names, now=now))
        try:
            await client.create(SECRET, _to_secret(made, namespace, common), namespace=namespace)
            return made
        except Conflict:
            stored = await client.get(SECRET, SECRET_NAME, namespace=namespace)
    known = _from_secret(stored)
    if not needs_renewal(known.server.certificate, names, now=now):
        return known
    renewed = Certificates(known.ca, _make_server(known.ca, names, now=now))
    body = {"data": _to_secret(renewed, namespace, common)["data"]}
    await client.patch(SECRET, SECRET_NAME, body, namespace=namespace)
    return renewed


def read_certificates(folder: Path) -> Certificates:
    """Returns the folder's certificates; the CA's key stays with its issuer.

    Raises:
        BadFolder: a file is missing or empty, or certificate and key do not match.
    """
    texts = {}
    for name in (CERTIFICATE_FILE, KEY_FILE, CA_FILE):
        try:
            texts[name] = (folder / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFolder(f"--report-tls: {folder / name} cannot be read ({error}); mount a Secret with it") from None
        if not texts[name].strip():
            raise BadFolder(f"--report-tls: {folder / name} is empty; mount a Secret with it (drivers need the CA)")
    found = Certificates(Pair(texts[CA_FILE], ""), Pair(texts[CERTIFICATE_FILE], texts[KEY_FILE]))
    try:
        build_ssl_context(found)
    except (ssl.SSLError, ValueError) as error:
        raise BadFolder(f"--report-tls: {CERTIFICATE_FILE} and {KEY_FILE} in {folder} do not match ({error})") from None
    return found


async def follow_certificates(
    find: Callable[[], Awaitable[Certificates]],
    known: Certificates,
    present: Callable[[Pair], None],
    *,
    pause: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Presents each new certificate that `find` returns; it may fail, and is called again after the pause. Runs until
    cancelled."""
    while True:
        await sleep(pause)
        try:
            found = await find()
        except (BadFolder, KubeError) as error:
            log.warning("the report endpoint keeps its certificate: %s", error)
            continue
        if found.server != known.server:
            present(found.server)
            log.info("the report endpoint has a new certificate")
        if found.ca != known.ca:
            log.warning("the CA of the report endpoint has changed: running jobs trust the one they started with")
        known = found


def build_ssl_context(certificates: Certificates) -> ssl.SSLContext:
    """Builds a server context that presents the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    present(context, certificates.server)
    return context


def present(context: ssl.SSLContext, server: Pair) -> None:
    """Presents this certificate to new connections from now on. The ssl module loads keys from files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "server.pem")
        # Created with its mode: a chmod afterwards would leave the key readable for a moment.
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(server.certificate + server.key)
        context.load_cert_chain(path)


def needs_renewal(certificate: str, names: Sequence[str], *, now: datetime) -> bool:
    """Returns whether a name is missing, or the certificate expires soon."""
    return not has_names(certificate, names) or expires(certificate) - now < timedelta(days=RENEW_DAYS)


def _make_server(ca: Pair, names: Sequence[str], *, now: datetime) -> Pair:
    return issue(ca, "railhead-report", now=now, days=SERVER_DAYS, names=names)


def _to_secret(certificates: Certificates, namespace: str, common: CommonMetadata) -> Object:
    texts = {
        "ca.crt": certificates.ca.certificate,
        "ca.key": certificates.ca.key,
        "tls.crt": certificates.server.certificate,
        "tls.key": certificates.server.key,
    }
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    metadata = build_shared_metadata(namespace, SECRET_NAME, common)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def _from_secret(secret: Object) -> Certificates:
    text = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    return Certificates(Pair(text["ca.crt"], text["ca.key"]), Pair(text["tls.crt"], text["tls.key"]))
