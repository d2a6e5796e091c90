"""An admission webhook on loopback that allows nothing, with the code of a test's choice, as controller-runtime's
`admission.Errored` does."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from railhead.pki import issue, make_ca

TEXT = "cannot read the namespace"


@dataclass
class Webhook:
    """What a ValidatingWebhookConfiguration needs of it.

    Attributes:
        code: of its next answers.
    """

    url: str
    ca_bundle: str
    code: int = 500


@contextmanager
def serve_webhook(folder: Path) -> Iterator[Webhook]:
    """Serves it until the context ends."""
    now = datetime.now(UTC)
    ca = make_ca("webhook", now=now, days=1)
    pair = issue(ca, "webhook", now=now, days=1, names=("127.0.0.1",))
    certificate, key = folder / "webhook.crt", folder / "webhook.key"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    bundle = base64.b64encode(ca.certificate.encode()).decode()
    webhook = Webhook(f"https://127.0.0.1:{server.server_address[1]}/", bundle)
    server.RequestHandlerClass = _make_handler(webhook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield webhook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_handler(webhook: Webhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Denies each request."""

        def do_POST(self) -> None:
            review: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = {"code": webhook.code, "message": TEXT}
            review["response"] = {"uid": review.pop("request")["uid"], "allowed": False, "status": status}
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    return Handler
