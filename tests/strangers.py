"""What another user of the machine gets from the sockets of some processes.

The sockets are found in /proc, so a new one is asked too. As root, the questions are asked with the uid of nobody;
other users ask with their own uid, but without any credentials.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - a stranger may not read the standard library when it is first needed
import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOBODY = 65534
LISTEN = "0A"
CLOSED = "07"  # the state of a UDP socket that takes packets of everybody
UNIX_LISTENS = 0x10000
SECONDS = 5.0
REFUSED = (401, 403)
# Requests that a server of a cluster would answer: health, numbers, stacks, objects, logs, and writes.
GETS = (
    "/",
    "/healthz",
    "/livez",
    "/readyz",
    "/health",
    "/metrics",
    "/version",
    "/configz",
    "/debug/pprof/cmdline",
    "/debug/vars",
    "/api",
    "/api/v1/secrets",
    "/openapi/v2",
    "/containerLogs/default/pod/container",
    "/v2/members",
    "/members",
)
POSTS = ("/v3/kv/range", "/v3/maintenance/status", "/v1/report", "/api/v1/namespaces/default/pods", "/raft")


@dataclass(frozen=True)
class Listener:
    """A socket that takes connections.

    Attributes:
        process: the command line.
        kind: tcp, udp or unix.
        address: the host, or the name of a unix socket; that of an abstract one begins with @.
    """

    pid: int
    process: str
    kind: str
    address: str
    port: int = 0


@dataclass(frozen=True)
class Answer:
    """What a socket did with one question; `is_refused` only if it asked for credentials."""

    question: str
    text: str
    is_refused: bool = False
    is_answered: bool = False


def find_listeners(pids: Iterable[int]) -> list[Listener]:
    """Returns the sockets of these processes on which they listen."""
    sockets = {**dict(_read_inet()), **dict(_read_unix())}
    found: dict[str, Listener] = {}
    for pid in pids:
        process = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                name = os.readlink(link)
                if name in sockets:
                    kind, address, port = sockets[name]
                    found[name] = Listener(pid, process, kind, address, port)
    return list(found.values())


def _read_inet() -> Iterator[tuple[str, tuple[str, str, int]]]:
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] in (LISTEN, CLOSED):
                address, port = fields[1].split(":")
                yield f"socket:[{fields[9]}]", (table[:3], _decode(address), int(port, 16))


def _decode(address: str) -> str:
    """Returns the address to connect to: that of this machine for all addresses."""
    words = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    if not any(words):
        return "127.0.0.1"
    return socket.inet_ntop(socket.AF_INET6 if len(words) == 16 else socket.AF_INET, words)


def _read_unix() -> Iterator[tuple[str, tuple[str, str, int]]]:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if int(fields[3], 16) & UNIX_LISTENS and len(fields) == 8:
            yield f"socket:[{fields[6]}]", ("unix", fields[7], 0)


def ask_as_stranger(listener: Listener) -> list[Answer]:
    """Asks it for everything, as another user where this process may become one."""
    return [Answer(**fields) for fields in as_stranger(lambda: [vars(answer) for answer in _ask(listener)])]


def is_root() -> bool:
    return os.getuid() == 0


def as_stranger(call: Callable[[], Any]) -> Any:
    """Returns what the call returns in a child process with the rights of nobody. It must fit into JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if is_root():
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            result = {"value": call()}
        except BaseException as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    result = json.loads(text)
    assert "error" not in result, result["error"]
    return result["value"]


def _ask(listener: Listener) -> Iterator[Answer]:
    if listener.kind == "unix":
        yield _ask_unix(listener.address)
        return
    if listener.kind == "udp":
        yield Answer("UDP", "takes packets of everybody", is_answered=True)
        return
    context = _try_tls(listener)
    if context is not None:
        yield _ask_handshake(listener)
    for method, paths in (("GET", GETS), ("POST", POSTS)):
        for path in paths:
            yield _ask_http(listener, method, path, context)


def _ask_unix(name: str) -> Answer:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(re.sub("^@", "\0", name))
        except OSError as error:
            return Answer("connect", str(error), is_refused=isinstance(error, PermissionError))
    return Answer("connect", "it takes the connection", is_answered=True)


def _make_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _try_tls(listener: Listener) -> ssl.SSLContext | None:
    """Returns how to speak TLS without a certificate; None if the server speaks none."""
    context = _make_context()
    try:
        with (
            socket.create_connection((listener.address, listener.port), timeout=SECONDS) as plain,
            context.wrap_socket(plain),
        ):
            return context
    except ssl.SSLError as error:
        return context if "ALERT" in str(error.reason) else None
    except OSError:
        return None


def _ask_handshake(listener: Listener) -> Answer:
    """Tells whether the server ends the handshake of a client without a certificate.

    With TLS 1.3 such a client completes its part before the server decides, and may lose the server's reason.
    """
    context = _make_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    question = "a handshake without a certificate"
    try:
        with (
            socket.create_connection((listener.address, listener.port), timeout=SECONDS) as plain,
            context.wrap_socket(plain),
        ):
            return Answer(question, "it completes")
    except TimeoutError as error:
        return Answer(question, str(error))
    except OSError as error:
        return Answer(question, str(error), is_refused="PROTOCOL_VERSION" not in str(error))


def _ask_http(listener: Listener, method: str, path: str, context: ssl.SSLContext | None) -> Answer:
    """A server that ends the connection without a word may speak another protocol: that is no refusal."""
    question = f"{method} {path}"
    with closing(http.client.HTTPConnection(listener.address, listener.port, timeout=SECONDS)) as connection:
        try:
            connection.connect()
            if context is not None:
                connection.sock = context.wrap_socket(connection.sock)
            connection.request(method, path, b"{}" if method == "POST" else None)
            response = connection.getresponse()
            text = response.read(200).decode(errors="replace")
        except ssl.SSLError as error:
            wants_certificate = "CERTIFICATE_REQUIRED" in str(error.reason) or "BAD_CERTIFICATE" in str(error.reason)
            return Answer(question, f"TLS: {error.reason}", is_refused=wants_certificate)
        except (OSError, http.client.HTTPException) as error:
            return Answer(question, f"{type(error).__name__}: {error}")
    is_refused = response.status in REFUSED
    return Answer(question, f"{response.status} {text!r}", is_refused=is_refused, is_answered=response.status < 400)


def describe(listener: Listener, answers: Sequence[Answer]) -> str:
    """Returns a message for a test that fails."""
    lines = "\n".join(f"    {answer.question}: {answer.text}" for answer in answers)
    return f"{listener.kind} {listener.address}:{listener.port} of {listener.process[:200]}\n{lines}"


def list_readable(folder: Path) -> list[str]:
    """Returns what a stranger can list or read of these folders; empty where this process cannot become one."""

    def look() -> list[str]:
        try:
            return [str(folder), *os.listdir(folder)]
        except PermissionError:
            return []

    return list(as_stranger(look)) if is_root() else []
