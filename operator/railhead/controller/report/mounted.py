"""The report endpoint's certificate from a folder, such as a mounted Secret of cert-manager.

The operator then issues no certificate and needs no rights on Secrets. It presents the one in the
folder and checks it for changes, because the kubelet updates the folder when the Secret changes.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from railhead.controller.report.certificate import Certificates
from railhead.controller.report.server import build_ssl_context
from railhead.pki import Pair

log = logging.getLogger(__name__)
CERTIFICATE, KEY, CA = "tls.crt", "tls.key", "ca.crt"
LOOK_AGAIN_SECONDS = 60.0


class BadFolder(RuntimeError):
    """The folder holds no usable certificate; the message says what is wrong and what to do."""


def read_certificates(folder: Path) -> Certificates:
    """The folder's certificates; the CA's key stays with its issuer.

    Raises:
        BadFolder: a file is missing or empty, or certificate and key do not match.
    """
    texts = {}
    for name in (CERTIFICATE, KEY, CA):
        try:
            texts[name] = (folder / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFolder(f"--report-tls: {folder / name} cannot be read ({error}); mount a Secret with it") from None
        if not texts[name].strip():
            raise BadFolder(f"--report-tls: {folder / name} is empty; mount a Secret with it (drivers need the CA)")
    found = Certificates(Pair(texts[CA], ""), Pair(texts[CERTIFICATE], texts[KEY]))
    try:
        build_ssl_context(found)
    except (ssl.SSLError, ValueError) as error:
        raise BadFolder(f"--report-tls: {CERTIFICATE} and {KEY} in {folder} do not match ({error})") from None
    return found


async def follow_folder(
    folder: Path,
    known: Certificates,
    present: Callable[[Pair], None],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Presents each new certificate in the folder; retries an unreadable one. Runs until cancelled."""
    while True:
        await sleep(LOOK_AGAIN_SECONDS)
        try:
            found = read_certificates(folder)
        except BadFolder as error:
            log.warning("the report endpoint keeps its certificate: %s", error)
            continue
        if found.server != known.server:
            present(found.server)
            log.info("the report endpoint has a new certificate")
        if found.ca != known.ca:
            log.warning("the CA of the report endpoint has changed: running jobs trust the one they started with")
        known = found
