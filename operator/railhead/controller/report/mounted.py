"""The report endpoint's certificate from a folder that somebody else fills: cert-manager, by a mounted Secret.

The operator makes no certificate then and needs no right on a Secret. It presents what is in
the folder, and looks again from time to time, because a kubelet brings a renewed one there.
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
    """The folder holds no certificate that can be presented; the text says what is wrong and what to do."""


def read_certificates(folder: Path) -> Certificates:
    """What the folder holds; the CA's key stays with whoever signs.

    Raises:
        BadFolder: a file is missing or empty, or certificate and key do not belong together.
    """
    texts = {}
    for name in (CERTIFICATE, KEY, CA):
        try:
            texts[name] = (folder / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadFolder(f"--report-tls: {folder / name} cannot be read ({error}); mount a Secret with it") from None
        if not texts[name].strip():
            raise BadFolder(f"--report-tls: {folder / name} is empty; drivers need the CA that signed the certificate")
    found = Certificates(Pair(texts[CA], ""), Pair(texts[CERTIFICATE], texts[KEY]))
    try:
        build_ssl_context(found)
    except (ssl.SSLError, ValueError) as error:
        raise BadFolder(f"--report-tls: {CERTIFICATE} and {KEY} of {folder} are no pair ({error})") from None
    return found


async def follow_folder(
    folder: Path,
    known: Certificates,
    present: Callable[[Pair], None],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Presents what is new in the folder; what cannot be read is tried again. Never returns by itself."""
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
            log.warning("the CA of the report endpoint is another one: jobs that run trust the one they began with")
        known = found
