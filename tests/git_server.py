"""A git server on loopback: git's own `http-backend` behind https, with or without a password."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.unit.driver.certificates import write_certificate

IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main")


def run_git(folder: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make_repository(folder: Path, *versions: dict[str, str], options: tuple[str, ...] = ()) -> list[str]:
    """A repository with a commit for each version (path -> content of its files); their hashes."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", *options)
    commits = []
    for number, files in enumerate(versions):
        for path, content in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        run_git(folder, "add", "--all")
        run_git(folder, "commit", "--quiet", "--message", f"version {number}")
        commits.append(run_git(folder, "rev-parse", "HEAD"))
    return commits


class GitServer(ThreadingHTTPServer):
    """Serves the repositories below `root`.

    Attributes:
        password: required, with any user name; None = no authentication.
        is_old: speaks version 0 of the protocol, which cannot fetch a commit by its hash.
        broken: the number of next requests that are answered with 503.
        users: names that clients have authenticated with.
    """

    daemon_threads = True

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.password: str | None = None
        self.is_old = False
        self.broken = 0
        self.users: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self.ca, key = write_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def url(self, repository: str) -> str:
        return f"https://127.0.0.1:{self.server_port}/{repository}"

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the certificate hangs up; some tests provoke this."""


class _Handler(BaseHTTPRequestHandler):
    server: GitServer

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes) -> None:
        if self.server.broken:
            self.server.broken -= 1
            self.send_error(503)
        elif not self._is_allowed():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._run_backend(body)

    def _is_allowed(self) -> bool:
        if self.server.password is None:
            return True
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return False
        user, _, password = base64.b64decode(value).decode().partition(":")
        self.server.users.add(user)
        return password == self.server.password

    def _run_backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        if not self.server.is_old:
            environment["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
