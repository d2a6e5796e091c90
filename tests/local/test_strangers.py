"""What another user of the machine can do with a session: nothing, but for what `OPEN` lists.

The ports of a job's pods are those of `tests/ray/test_ports.py`.
"""

from __future__ import annotations

import http.server
import os
import socket
import ssl
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.install import Kubectl
from railhead.local.processes import MARKER, marked
from railhead.local.session import Session
from tests.local.test_session import call
from tests.strangers import (
    Answer,
    Listener,
    ask_as_stranger,
    describe,
    find_listeners,
    is_root,
    list_readable,
)

# What everybody may ask, by a part of the command line and the question, and why.
OPEN = {
    ("railhead.cli operator", "GET /healthz"): "says only whether the operator works; the kubelet has no credentials",
    ("railhead.cli operator", "GET /readyz"): "the same",
}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with TemporaryDirectory() as folder:
        # As a home may be: pytest's own folder keeps everybody out, and would hide what the session's folder shows.
        Path(folder).chmod(0o755)
        session = Session(Path(folder, "session"))
        session.folder.mkdir(mode=0o755)  # as earlier versions left it
        try:
            code, output = call("up", session=session)
            assert code == 0, output
            yield session
        finally:
            session.down()


def list_pids(session: Session) -> list[int]:
    return [identity.pid for identity in marked(MARKER, session.marker, folder=session.temp_folder())]


def judge(listener: Listener, answers: list[Answer]) -> str:
    """Returns what is wrong with a socket, or an empty string."""

    def is_open(answer: Answer) -> bool:
        return any(part in listener.process and answer.question == question for part, question in OPEN)

    for answer in answers:
        if answer.is_answered and not is_open(answer):
            return f"it answers {answer.question}"
    if any(answer.is_refused for answer in answers):
        return ""
    # A protocol that none of the questions speaks needs one that does.
    return "" if any(answer.is_answered for answer in answers) else "it asked for no credentials"


def test_every_socket_of_a_session_refuses_strangers(session: Session) -> None:
    listeners = find_listeners(list_pids(session))
    programs = ("etcd", "kube-apiserver", "railhead.local.node", "railhead.cli operator")
    missed = [name for name in programs if not any(name in listener.process for listener in listeners)]
    assert not missed
    asked = [(listener, ask_as_stranger(listener)) for listener in listeners]
    problems = [f"{problem}: {describe(*each)}" for each in asked if (problem := judge(*each))]
    assert not problems, "\n".join(problems)


def test_an_open_socket_would_be_found() -> None:
    """Else the test above could not fail."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        [listener] = [each for each in find_listeners([os.getpid()]) if each.port == port]
        assert judge(listener, ask_as_stranger(listener)) == "it answers GET /"
        server.shutdown()


@pytest.mark.skipif(not is_root(), reason="only root can become another user")
def test_strangers_cannot_enter_the_folders_of_a_session(session: Session) -> None:
    temp = session.temp_folder()
    assert temp is not None
    assert list_readable(session.folder.parent)
    assert list_readable(session.folder) == []
    assert list_readable(temp) == []


def test_the_folder_of_a_session_is_private(session: Session) -> None:
    assert stat.S_IMODE(session.folder.stat().st_mode) == 0o700


def test_the_metrics_of_a_session_need_a_token(session: Session) -> None:
    """And a token with the right reads them: the operator may ask who may."""
    process = next(each for each in find_listeners(list_pids(session)) if "cli operator" in each.process).process
    words = process.split()
    address = words[words.index("--metrics-listen") + 1]
    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    kubectl("create", "serviceaccount", "reader")
    kubectl("create", "clusterrole", "reader", "--verb=get", "--non-resource-url=/metrics")
    kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader")
    token = kubectl("create", "token", "reader").strip()
    request = urllib.request.Request(f"https://{address}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=10) as response:
        assert b"railhead_build_info" in response.read()


def test_etcd_takes_no_certificate_of_the_cluster(session: Session) -> None:
    """With the administrator's, a node's or a server's, one could write past the API server."""
    etcd = [each for each in find_listeners(list_pids(session)) if each.process.split()[0].endswith("/etcd")]
    assert len(etcd) == 2
    for name, is_accepted in (("admin", False), ("node", False), ("apiserver", False), ("etcd", True)):
        context = ssl.create_default_context(cafile=str(session.folder / "pki" / "etcd-ca.crt"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 a client learns of a refusal later
        context.load_cert_chain(session.folder / "pki" / f"{name}.crt", session.folder / "pki" / f"{name}.key")
        assert [has_handshake(each, context) for each in etcd] == [is_accepted] * 2, name


def has_handshake(listener: Listener, context: ssl.SSLContext) -> bool:
    try:
        with (
            socket.create_connection((listener.address, listener.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=listener.address),
        ):
            return True
    except (ssl.SSLError, ConnectionResetError):
        return False


def test_a_control_plane_without_a_session_refuses_strangers(control_plane: ControlPlane) -> None:
    """As the tests and `make demo` start it."""
    listeners = find_listeners(control_plane.pids().values())
    assert {Path(listener.process.split()[0]).name for listener in listeners} == {"etcd", "kube-apiserver"}
    asked = [(listener, ask_as_stranger(listener)) for listener in listeners]
    problems = [f"{problem}: {describe(*each)}" for each in asked if (problem := judge(*each))]
    assert not problems, "\n".join(problems)
