"""The publisher against a real HTTPS endpoint: whole states, coalesced, retried, never in the way."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.checkpoint import Checkpoint
from railhead.contract.report import Report, RunWarning
from railhead.driver.reporting import publisher as publisher_module
from railhead.driver.reporting.progress import Progress
from railhead.driver.reporting.publisher import LONGEST_WAIT, Endpoint, Publisher, compute_backoff
from railhead.driver.reporting.spool import Spool
from tests.unit.driver.certificates import DNS_NAME, write_certificate
from tests.waiting import wait_until

BASE = Report(namespace="ns", name="n", uid="u", attempt=2, state="STARTING")


class Server:
    """Answers with `answers` first and 204 afterwards."""

    def __init__(self, folder: Path) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.answers: list[int] = []
        self.words = b""
        self.changed = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/v1/report"
                with outer.changed:
                    outer.bodies.append(body)
                    outer.tokens.append(self.headers["Authorization"])
                    answer = outer.answers.pop(0) if outer.answers else 204
                    outer.changed.notify_all()
                self.send_response(answer)
                self.send_header("Content-Length", str(len(outer.words)))
                self.end_headers()
                self.wfile.write(outer.words)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        certificate, key = write_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        (folder / "token").write_text("first\n")
        url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self.endpoint = Endpoint(url, str(folder / "token"), str(certificate))

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.bodies) >= count, 10), self.bodies

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(publisher_module, "SHORTEST_INTERVAL", 0.05)
    monkeypatch.setattr(publisher_module, "FIRST_WAIT", 0.01)
    found = Server(tmp_path)
    yield found
    for thread in threading.enumerate():
        if thread.name == "railhead-publisher":
            thread.join(5)
            assert not thread.is_alive(), "a publisher that was stopped goes on"
    found.stop()


def build(server: Server, folder: Path, *, endpoint: Endpoint | None = None) -> tuple[Publisher, Spool, list[str]]:
    said: list[str] = []
    spool = Spool(folder)
    return Publisher(endpoint=endpoint or server.endpoint, spool=spool, base=BASE, log=said.append), spool, said


def stop(publisher: Publisher) -> None:
    publisher.begin_stop()
    publisher.wait_stopped(5)


CHECKPOINT = Checkpoint("/c", 0, "t", {"loss": "1"})


def test_each_state_is_sent_whole_and_the_token_is_read_anew(server: Server, tmp_path: Path) -> None:
    publisher, spool, _ = build(server, tmp_path)
    publisher.start()
    server.wait_for(1)
    (tmp_path / "token").write_text("second\n")
    spool.write(Progress(state="RUNNING", reports=3, metrics={"loss": "1"}, checkpoint=CHECKPOINT).to_dict())
    server.wait_for(2)
    publisher.update(joined=2, run_uri="/runs/r")
    server.wait_for(3)
    publisher.update(state="FINISHED")
    stop(publisher)
    first, second, third, last = server.bodies
    assert (first["state"], first["attempt"], first["uid"]) == ("STARTING", 2, "u")
    assert (second["state"], second["reports"], second["metrics"]) == ("RUNNING", 3, {"loss": "1"})
    assert (third["joined"], third["checkpoint"]) == (2, CHECKPOINT.to_dict())
    assert (last["state"], last["reports"]) == ("FINISHED", 3)
    assert server.tokens[0] == "Bearer first"
    assert server.tokens[-1] == "Bearer second"
    assert all(body["time"].endswith("Z") for body in server.bodies)


def test_news_is_coalesced_and_the_last_state_is_always_sent(server: Server, tmp_path: Path) -> None:
    publisher, spool, _ = build(server, tmp_path)
    publisher.start()
    for reports in range(1, 200):
        spool.write(Progress(state="RUNNING", reports=reports).to_dict())
    stop(publisher)
    assert server.bodies[-1]["reports"] == 199
    assert len(server.bodies) < 100


def test_a_driver_whose_training_is_silent_says_a_word_and_learns_the_limit_of_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "SILENCE_SECONDS", 0.2)
    server.answers, server.words = [202] * 100, b'{"message": "accepted", "progressDeadlineSeconds": 600}'
    publisher, spool, _ = build(server, tmp_path)
    spool.write(Progress(state="RUNNING", reports=3).to_dict())
    publisher.start()
    server.wait_for(2)
    wait_until("the limit is learnt", lambda: spool.read_deadline(None) == 600)
    server.words = b'{"message": "accepted", "progressDeadlineSeconds": null}'
    wait_until("it is lifted", lambda: spool.read_deadline(600) is None)
    for words in (b"", b"[]", b"no JSON", b'{"progressDeadlineSeconds": "soon"}', b'{"message": "an older operator"}'):
        server.words = words
        server.wait_for(len(server.bodies) + 1)
    assert spool.read_deadline(600) is None
    stop(publisher)


def test_a_driver_without_a_group_says_nothing_twice(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "SILENCE_SECONDS", 0.01)
    publisher, _, _ = build(server, tmp_path)
    publisher.start()
    server.wait_for(1)
    publisher.update(joined=1)
    server.wait_for(2)
    stop(publisher)
    assert len(server.bodies) == 2


def test_trouble_is_retried_and_a_refusal_is_not(server: Server, tmp_path: Path) -> None:
    server.answers = [503, 503, 503, 401]
    publisher, spool, said = build(server, tmp_path)
    publisher.start()
    server.wait_for(5)
    server.answers = [422]
    spool.write(Progress(reports=1).to_dict())
    server.wait_for(6)
    stop(publisher)
    assert [body["reports"] for body in server.bodies] == [0, 0, 0, 0, 0, 1]
    assert [text.partition("status ")[2][:3] for text in said] == ["503", "401", "422"]  # each trouble once
    assert "training is not affected" in said[0]


def test_a_warning_that_passes_hides_the_runs_own_while_it_lasts(server: Server, tmp_path: Path) -> None:
    publisher, spool, _ = build(server, tmp_path)
    own, passing = RunWarning("RunNameDiffers", "another name"), RunWarning("CheckpointNotWritten", "no space")
    spool.write(Progress(warning=own).to_dict())
    assert publisher.build_report().warning == own
    spool.write_warning(passing)
    assert publisher.build_report().warning == passing
    spool.forget_warning()
    spool.forget_warning()
    assert publisher.build_report().warning == own
    publisher.start()
    stop(publisher)


def test_stop_is_bounded_when_nobody_listens(server: Server, tmp_path: Path) -> None:
    absent = Endpoint("https://127.0.0.1:1", server.endpoint.token_file, server.endpoint.ca_file)
    publisher, _, said = build(server, tmp_path, endpoint=absent)
    publisher.start()
    publisher.begin_stop()
    publisher.wait_stopped(0.5)
    assert said


def test_a_server_that_our_ca_does_not_know_gets_no_token(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stranger, _ = write_certificate(tmp_path / "other")
    endpoint = Endpoint(server.endpoint.url, server.endpoint.token_file, str(stranger))
    publisher, _, said = build(server, tmp_path, endpoint=endpoint)
    publisher.start()
    publisher.begin_stop()
    publisher.wait_stopped(0.5)
    assert server.bodies == []
    assert any("CERTIFICATE_VERIFY_FAILED" in text for text in said)


def test_backoff_is_bounded() -> None:
    waits = [compute_backoff(n) for n in range(1, 100)]
    assert waits == sorted(waits)
    assert max(waits) == LONGEST_WAIT


def test_a_local_nodes_hosts_file_says_where_the_endpoint_is(server: Server, tmp_path: Path) -> None:
    """There is no DNS there; the certificate is still the name's."""
    port = server.endpoint.url.rpartition(":")[2]
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 {DNS_NAME}\n127.0.0.1 other.railhead.test\n")
    for number, (name, taken) in enumerate([(DNS_NAME, 1), ("other.railhead.test", 1)]):
        endpoint = replace(server.endpoint, url=f"https://{name}:{port}", hosts_file=str(hosts))
        (tmp_path / str(number)).mkdir()
        publisher, _, said = build(server, tmp_path / str(number), endpoint=endpoint)
        publisher.start()
        stop(publisher)
        assert len(server.bodies) == taken
    assert "Hostname mismatch" in said[0]
