"""The publisher against a real HTTPS endpoint: full states, coalesced, retried, never blocking."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.report import CommittedCheckpoint, Report, RunWarning, SlowRank, Steps
from railhead.driver.head import publisher as publisher_module
from railhead.driver.head.estimate import MetricReader, RunEstimate
from railhead.driver.head.publisher import Endpoint, Publisher
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import FromController
from tests.unit.driver.certificates import DNS_NAME, write_certificate
from tests.unit.driver.mailboxes import tell
from tests.waiting import wait_until

BASE = Report(namespace="ns", name="n", uid="u", attempt=2, state="STARTING")


class Server:
    """Responds with `answers` first and 204 afterwards."""

    def __init__(self, folder: Path) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.logged: list[str] = []
        self.tokens: list[str] = []
        self.answers: list[int] = []
        self.body = b""
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
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

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
    monkeypatch.setattr(publisher_module, "SHORTEST_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(publisher_module, "FIRST_WAIT_SECONDS", 0.01)
    found = Server(tmp_path)
    monkeypatch.setattr(publisher_module, "log", found.logged.append)
    yield found
    for thread in threading.enumerate():
        if thread.name == "railhead-publisher":
            thread.join(5)
            assert not thread.is_alive(), "a stopped publisher is still running"
    found.stop()


def build(server: Server, folder: Path, *, endpoint: Endpoint | None = None) -> tuple[Publisher, Mailbox, list[str]]:
    mailbox = Mailbox(folder)
    return Publisher(endpoint=endpoint or server.endpoint, mailbox=mailbox, base=BASE), mailbox, server.logged


def stop(publisher: Publisher) -> None:
    publisher.begin_stop()
    publisher.wait_stopped(5)


CHECKPOINT = CommittedCheckpoint("/c", 0, "t", {"loss": "1"})


def test_sends_full_states_and_reads_the_token_again(server: Server, tmp_path: Path) -> None:
    publisher, mailbox, _ = build(server, tmp_path)
    publisher.start()
    server.wait_for(1)
    (tmp_path / "token").write_text("second\n")
    tell(
        mailbox.controller,
        progress=Progress(state="RUNNING", reports=3, metrics={"loss": "1"}, checkpoint=CHECKPOINT),
        tracker_url="https://t/runs/1",
    )
    server.wait_for(2)
    publisher.update(partial(replace, joined=2, run_uri="/runs/r"))
    server.wait_for(3)
    publisher.update(partial(replace, state="FINISHED"))
    stop(publisher)
    first, second, third, last = server.bodies
    assert (first["state"], first["attempt"], first["uid"]) == ("STARTING", 2, "u")
    assert (second["state"], second["reports"], second["metrics"]) == ("RUNNING", 3, {"loss": "1"})
    assert (first["tracker_url"], second["tracker_url"]) == ("", "https://t/runs/1")
    assert (third["joined"], third["checkpoint"]) == (2, CHECKPOINT.to_dict())
    assert (last["state"], last["reports"]) == ("FINISHED", 3)
    assert server.tokens[0] == "Bearer first"
    assert server.tokens[-1] == "Bearer second"
    assert all(body["time"].endswith("Z") for body in server.bodies)


def test_coalesces_updates_and_always_sends_the_last_state(server: Server, tmp_path: Path) -> None:
    publisher, mailbox, _ = build(server, tmp_path)
    publisher.start()
    for reports in range(1, 200):
        tell(mailbox.controller, progress=Progress(state="RUNNING", reports=reports))
    stop(publisher)
    assert server.bodies[-1]["reports"] == 199
    assert len(server.bodies) < 100


def test_sends_heartbeats_between_reports_and_receives_the_deadline(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "SILENCE_SECONDS", 0.2)
    server.answers, server.body = [202] * 100, b'{"message": "accepted", "progress_deadline_seconds": 600}'
    publisher, mailbox, _ = build(server, tmp_path)
    tell(mailbox.controller, progress=Progress(state="RUNNING", reports=3))
    publisher.start()
    server.wait_for(2)
    wait_until("the deadline arrives", lambda: publisher.answer.progress_deadline_seconds == 600)
    server.body = b'{"message": "accepted", "progress_deadline_seconds": null}'
    wait_until("the deadline is removed", lambda: publisher.answer.progress_deadline_seconds is None)
    for body in (b"", b"[]", b"no JSON", b'{"progress_deadline_seconds": "soon"}'):
        server.body = body
        server.wait_for(len(server.bodies) + 1)
    assert publisher.answer.progress_deadline_seconds is None
    stop(publisher)


def test_new_metrics_wait_as_long_as_the_operator_says_and_anything_else_takes_them_along(
    server: Server, tmp_path: Path
) -> None:
    server.answers, server.body = [202] * 100, b'{"message": "accepted", "next_report_seconds": 3600}'
    publisher, mailbox, _ = build(server, tmp_path)
    publisher.start()
    server.wait_for(1)
    for number in range(1, 50):
        tell(mailbox.controller, progress=Progress(state="STARTING", reports=number, metrics={"loss": "1"}))
    tell(mailbox.controller, progress=Progress(state="STARTING", reports=50, checkpoint=CHECKPOINT))
    server.wait_for(2)
    publisher.update(partial(replace, joined=3))
    tell(mailbox.controller, progress=Progress(state="STARTING", reports=51, checkpoint=CHECKPOINT))
    tell(mailbox.controller, progress=Progress(state="RUNNING", reports=51, checkpoint=CHECKPOINT))
    server.wait_for(3)
    publisher.update(partial(replace, joined=4))
    stop(publisher)
    sent = [(body["state"], body["reports"], body["joined"], bool(body["checkpoint"])) for body in server.bodies]
    assert sent[0][:2] == ("STARTING", 0)
    assert sent[1:] == [("STARTING", 50, 0, True), ("RUNNING", 51, 3, True), ("RUNNING", 51, 4, True)]


def test_steps_alone_are_no_reason_to_report_and_go_along_with_the_next_one(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "SHORTEST_INTERVAL_SECONDS", 0.0)
    server.answers = [202] * 100
    server.body = b'{"message": "accepted", "next_report_seconds": 0, "hang_policy": "Restart"}'
    publisher, mailbox, _ = build(server, tmp_path)
    tell(mailbox.controller, progress=Progress(state="RUNNING", reports=1))
    publisher.start()
    server.wait_for(1)
    wait_until("the policy arrives", lambda: publisher.answer.hang_policy == "Restart")
    for number in range(1, 50):
        tell(mailbox.controller, heartbeat=Heartbeat(number, number, number, False, Steps(number, 100, "0.1", "2048")))
        mailbox.wake()
    tell(mailbox.controller, progress=Progress(state="RUNNING", reports=2))
    server.wait_for(2)
    stop(publisher)
    assert [(body["reports"], body["steps"]["step"]) for body in server.bodies] == [(1, None), (2, 49)]


def test_who_is_slow_is_reported_at_once_and_a_score_alone_is_not(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "SHORTEST_INTERVAL_SECONDS", 0.0)
    publisher, mailbox, _ = build(server, tmp_path)

    def tell_slow(number: int, *slow: SlowRank) -> None:
        tell(mailbox.controller, heartbeat=Heartbeat(number, 9, 9, False, Steps(), slow_ranks=slow))

    tell(mailbox.controller, progress=Progress(state="RUNNING", reports=1))
    publisher.start()
    server.wait_for(1)
    for number in range(20):
        tell_slow(number, SlowRank(3, "w3", f"0.{50 + number}", "t1"))
    server.wait_for(2)
    for number in range(20):
        tell_slow(number, SlowRank(3, "w3", f"0.{30 + number}", "t1"))
    tell_slow(99)
    server.wait_for(3)
    stop(publisher)
    assert [[each["rank"] for each in body["slow_ranks"]] for body in server.bodies] == [[], [3], []]


def test_an_attempt_that_has_ended_waits_for_nothing(tmp_path: Path) -> None:
    base = Report("ns", "n", "u", 1, "STARTING", finishing="Ray Train waits.")
    publisher = Publisher(endpoint=None, mailbox=Mailbox(tmp_path), base=base)
    assert publisher.build_report().finishing == "Ray Train waits."
    publisher.update(partial(replace, state="FINISHED"))
    assert publisher.build_report().finishing == ""


def test_a_slow_reader_never_counts_a_state_after_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape of the job's metrics and the publisher build reports at the same time."""
    mailbox, counted = Mailbox(tmp_path), list[int]()
    has_read, may_go_on, original = threading.Event(), threading.Event(), Mailbox.read_newest_fit

    class Estimate(RunEstimate):
        def add(self, steps: Steps, progress: Progress, *, now: float, end: str = "") -> Steps:
            counted.append(progress.commits)
            return super().add(steps, progress, now=now, end=end)

    def read(self: Mailbox) -> FromController:
        found = original(self)
        if found.progress.commits == 0:
            has_read.set()
            assert may_go_on.wait(10)
        return found

    monkeypatch.setattr(Mailbox, "read_newest_fit", read)
    publisher = Publisher(endpoint=None, mailbox=mailbox, base=BASE, estimate=Estimate(MetricReader()))
    slow, fast = threading.Thread(target=publisher.build_report), threading.Thread(target=publisher.build_report)
    slow.start()
    assert has_read.wait(10)
    tell(mailbox.controller, progress=Progress(state="RUNNING", commits=1))
    fast.start()
    fast.join(0.2)  # it has to wait
    may_go_on.set()
    slow.join(10)
    fast.join(10)
    assert counted == [0, 1]


def test_new_metrics_wait_no_longer_than_a_heartbeat(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "SILENCE_SECONDS", 0.2)
    server.answers, server.body = [202] * 100, b'{"message": "accepted", "next_report_seconds": 3600}'
    publisher, mailbox, _ = build(server, tmp_path)
    publisher.start()
    server.wait_for(1)
    tell(mailbox.controller, progress=Progress(state="STARTING", reports=1))
    server.wait_for(2)
    stop(publisher)
    assert server.bodies[1]["reports"] == 1


def test_sends_no_heartbeats_without_a_group(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "SILENCE_SECONDS", 0.01)
    publisher, _, _ = build(server, tmp_path)
    publisher.start()
    server.wait_for(1)
    publisher.update(partial(replace, joined=1))
    server.wait_for(2)
    stop(publisher)
    assert len(server.bodies) == 2


def test_retries_server_errors_but_not_rejections(server: Server, tmp_path: Path) -> None:
    server.answers = [503, 503, 503, 401]
    publisher, mailbox, logged = build(server, tmp_path)
    publisher.start()
    server.wait_for(5)
    server.answers = [422]
    tell(mailbox.controller, progress=Progress(reports=1))
    server.wait_for(6)
    stop(publisher)
    assert [body["reports"] for body in server.bodies] == [0, 0, 0, 0, 0, 1]
    assert [text.partition("status ")[2][:3] for text in logged] == ["503", "401", "422"]  # each problem once
    assert "training is not affected" in logged[0]


def test_a_save_that_the_storage_does_not_answer_is_a_warning_until_the_next_commit(
    server: Server, tmp_path: Path
) -> None:
    publisher, mailbox, _ = build(server, tmp_path)
    text = "the storage has not answered rank 1 for 300 s while it wrote /runs/a/__1_0.distcp"
    tell(mailbox.controller, heartbeat=Heartbeat(1, 0, 0, False, Steps(), stuck_save=text))
    assert publisher.build_report().warning == RunWarning("CheckpointNotWritten", text)
    tell(mailbox.controller, heartbeat=Heartbeat(2, 0, 0, False, Steps()))
    assert publisher.build_report().warning is None


def test_a_temporary_warning_hides_the_runs_own_until_it_is_cleared(server: Server, tmp_path: Path) -> None:
    publisher, mailbox, _ = build(server, tmp_path)
    own, temporary = RunWarning("RunNameDiffers", "another name"), RunWarning("CheckpointNotWritten", "no space")
    tell(mailbox.controller, progress=Progress(warning=own))
    assert publisher.build_report().warning == own
    tell(mailbox.controller, warning=temporary)
    assert publisher.build_report().warning == temporary
    tell(mailbox.controller, warning=None)
    tell(mailbox.controller, warning=None)
    assert publisher.build_report().warning == own
    publisher.start()
    stop(publisher)


def test_stop_is_bounded_without_a_server(server: Server, tmp_path: Path) -> None:
    absent = Endpoint("https://127.0.0.1:1", server.endpoint.token_file, server.endpoint.ca_file)
    publisher, _, logged = build(server, tmp_path, endpoint=absent)
    publisher.start()
    publisher.begin_stop()
    publisher.wait_stopped(0.5)
    assert logged


def test_sends_no_token_to_a_server_with_an_unknown_ca(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    unknown, _ = write_certificate(tmp_path / "other")
    endpoint = Endpoint(server.endpoint.url, server.endpoint.token_file, str(unknown))
    publisher, _, logged = build(server, tmp_path, endpoint=endpoint)
    publisher.start()
    publisher.begin_stop()
    publisher.wait_stopped(0.5)
    assert server.bodies == []
    assert any("CERTIFICATE_VERIFY_FAILED" in text for text in logged)


def test_resolves_the_endpoint_with_a_local_nodes_hosts_file(server: Server, tmp_path: Path) -> None:
    """A local node has no DNS; the certificate must still match the name."""
    port = server.endpoint.url.rpartition(":")[2]
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 {DNS_NAME}\n127.0.0.1 other.railhead.test\n")
    for number, (name, taken) in enumerate([(DNS_NAME, 1), ("other.railhead.test", 1)]):
        endpoint = replace(server.endpoint, url=f"https://{name}:{port}", hosts_file=str(hosts))
        (tmp_path / str(number)).mkdir()
        publisher, _, logged = build(server, tmp_path / str(number), endpoint=endpoint)
        publisher.start()
        stop(publisher)
        assert len(server.bodies) == taken
    assert "Hostname mismatch" in logged[0]
