"""Sends the mailbox's state to the operator's report endpoint, in a thread of the driver process.

Each report has the complete state, so reports are coalesced, the next one makes up for a lost
one, and trouble with the endpoint never affects training.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable, Optional
from urllib.parse import urlsplit

from railhead.contract.answer import Answer
from railhead.contract.report import (
    MAX_LOST_PODS,
    PATH,
    SILENCE_SECONDS,
    Report,
    ResumedFrom,
    RunWarning,
    Steps,
    without_scores,
)
from railhead.contract.times import now_text
from railhead.driver.container.hosts import compute_pause, find_in_hosts_file
from railhead.driver.head.estimate import MetricReader, RunEstimate
from railhead.driver.head.time_account import TimeAccount
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.exception_text import read_text
from railhead.driver.messages.log import log

SHORTEST_INTERVAL_SECONDS = 0.5  # between two reports
FIRST_WAIT_SECONDS = 0.3
LONGEST_WAIT_SECONDS = 10.0
LONGEST_LAST_WAIT_SECONDS = 2.0  # between tries of the last report
TIMEOUT_SECONDS = 5.0
# The endpoint has read the report and rejects it; a retry would get the same response.
_REFUSED = (400, 413, 422)


@dataclass(frozen=True)
class Endpoint:
    """`token_file` is read again for each report: the kubelet rotates it."""

    url: str
    token_file: Optional[str]
    ca_file: Optional[str]
    hosts_file: Optional[str] = None  # of a local node, which has no DNS


class Publisher:
    """`base` has the fields that do not change; the rest comes from the mailbox and from `update`.

    Attributes:
        answer: what the operator has answered last.
    """

    def __init__(
        self,
        *,
        endpoint: Optional[Endpoint],
        mailbox: Mailbox,
        base: Report,
        answer: Optional[Answer] = None,
        estimate: Optional[RunEstimate] = None,
    ) -> None:
        self._endpoint = endpoint
        self._mailbox = mailbox
        self.answer = answer or Answer()
        self._report = base
        self._estimate = estimate or RunEstimate(MetricReader())
        self._account = TimeAccount(now=time.monotonic())
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._given_up = threading.Event()
        self._sent: Optional[Report] = None
        self._sent_at = 0.0
        self._problem = ""
        self._connection: Optional[http.client.HTTPConnection] = None
        self._socket: socket.socket  # from `start` on
        self._thread = threading.Thread(target=self._run, name="railhead-publisher", daemon=True)

    def start(self) -> None:
        self._socket = self._mailbox.open_socket()
        self._thread.start()

    def update(self, change: Callable[[Report], Report]) -> None:
        """Changes fields of the report that do not come from the mailbox."""
        with self._lock:
            self._report = change(self._report)
        self._mailbox.wake()

    def warn(self, warning: Optional[RunWarning]) -> None:
        """Shows the driver's own warning, or that it is over."""
        self.update(partial(replace, warning=warning))

    def forget_warning(self, reason: str) -> None:
        """Forgets the warning if it has this reason."""
        self.update(lambda report: replace(report, warning=None) if _has_reason(report.warning, reason) else report)

    def shows(self, reason: str) -> bool:
        with self._lock:
            return _has_reason(self._report.warning, reason)

    def build_report(self) -> Report:
        """The current state, without a time. Any thread may ask for it."""
        with self._lock:  # also around the reads: a state that another thread has read earlier may not come later
            base = self._report
            fit = self._mailbox.read_newest_fit()
            script = self._mailbox.script.read()
            progress = fit.progress
            now = time.monotonic()
            steps = fit.heartbeat.steps if fit.heartbeat else Steps()
            end = base.state if base.state in ("FINISHED", "ERRORED") else ""
            steps = self._estimate.add(steps, progress, now=now, end=end)
            self._account.look(progress, fit.heartbeat, restart=fit.restart, outcome=base.outcome, now=now)
        if end:
            state = base.state
        else:
            state = progress.state
        resumed_from = None
        if progress.resumed_from:
            resumed_from = ResumedFrom(progress.resumed_from)
        if fit.heartbeat:
            slow_ranks = fit.heartbeat.slow_ranks
        else:
            slow_ranks = ()
        return replace(
            base,
            state=state,
            reports=progress.reports,
            workers=len(progress.processes),
            metrics=progress.metrics,
            checkpoint=progress.checkpoint,
            best_checkpoint=progress.best_checkpoint,
            run_uri=progress.run_uri or base.run_uri,
            resumed_from=resumed_from,
            warning=fit.warning or base.warning or script.warning or fit.rule_warning or progress.warning,
            lost_pods=(*fit.lost_pods, *base.lost_pods)[:MAX_LOST_PODS],
            restart=fit.restart,
            steps=steps,
            slow_ranks=slow_ranks,
        )

    def begin_stop(self) -> None:
        self._stopping.set()
        self._mailbox.wake()

    def has_stopped(self, timeout: float) -> bool:
        """Whether the last state has been sent; waits for it at most `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait_stopped(self, timeout: float) -> None:
        """Like `has_stopped`, but then there are no more retries."""
        self.has_stopped(timeout)
        self._given_up.set()

    def _run(self) -> None:
        try:
            if self._endpoint is not None:
                self._publish(self._endpoint)
        finally:
            self._drop_connection()
            self._socket.close()

    def _publish(self, endpoint: Endpoint) -> None:
        failures = last_failures = 0
        while not self._given_up.is_set():
            report = self.build_report()
            left = self._count_seconds_left(report)
            if report == self._sent and self._stopping.is_set():
                return
            if left > 0 and not self._stopping.is_set():
                self._wait(0.0 if report == self._sent else SHORTEST_INTERVAL_SECONDS, left)
                continue
            if self._post(report, endpoint):
                self._sent = report
                self._sent_at = time.monotonic()
                failures = 0
                wait = SHORTEST_INTERVAL_SECONDS
            else:
                wait = compute_pause(failures, first=FIRST_WAIT_SECONDS, longest=LONGEST_WAIT_SECONDS)
                failures = failures + 1
                wait = wait * random.uniform(0.5, 1.0)
            if self._stopping.is_set():
                last_failures += 1
                wait = min(0.2 * last_failures, LONGEST_LAST_WAIT_SECONDS) if failures else 0.0
            self._wait(wait, wait)

    def _count_seconds_left(self, report: Report) -> float:
        """Until this report is to be sent, if nothing changes; 0 or less: now."""
        known = self._sent
        passed = time.monotonic() - self._sent_at
        if known is None:
            return 0.0
        report = replace(report, steps=known.steps)
        if without_scores(report.slow_ranks) == without_scores(known.slow_ranks):
            report = replace(report, slow_ranks=known.slow_ranks)
        if report == known:
            if report.state == "RUNNING":
                return SILENCE_SECONDS - passed
            return SILENCE_SECONDS
        if replace(report, reports=known.reports, joined=known.joined, metrics=known.metrics) == known:
            return min(self.answer.next_report_seconds, SILENCE_SECONDS) - passed
        return 0.0

    def _wait(self, at_least: float, at_most: float) -> None:
        """Seconds until something changes, between these. A stop ends it early."""
        began = time.monotonic()
        is_changed = False
        while (left := began + (at_least if is_changed else at_most) - time.monotonic()) > 0:
            if select.select([self._socket], [], [], left)[0]:
                self._socket.recv(16)
                is_changed = True
            if self._stopping.is_set():
                return

    def _post(self, report: Report, endpoint: Endpoint) -> bool:
        """Whether it need not be sent again."""
        body = replace(report, time=now_text(), spent=self._account.spent).to_json()
        try:
            status, answer = self._request(body, endpoint)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._drop_connection()
            self._note(f"{type(error).__name__}: {read_text(error)}")
            return False
        if 200 <= status < 300:
            self._problem = ""
            self._read_answer(answer)
            return True
        self._note(f"status {status}")
        return status in _REFUSED

    def _read_answer(self, answer: bytes) -> None:
        """Stores the answer, also in the mailbox. What is no answer changes nothing."""
        with contextlib.suppress(ValueError):
            self.answer = Answer.from_json(answer)
            # Differs in each answer, and each change of the mailbox wakes this thread.
            told = replace(self.answer, next_report_seconds=0.0)
            self._mailbox.driver.change(partial(replace, answer=told))

    def _request(self, body: bytes, endpoint: Endpoint) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if endpoint.token_file:
            with open(endpoint.token_file) as file:
                headers["Authorization"] = f"Bearer {file.read().strip()}"
        if self._connection is None:
            self._connection = build_connection(endpoint)
        self._connection.request("POST", urlsplit(endpoint.url).path.rstrip("/") + PATH, body=body, headers=headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _note(self, problem: str) -> None:
        """Logs a repeated problem only once: it may last for hours."""
        if problem == self._problem:
            return
        self._problem = problem
        log(f"the operator did not accept a report ({problem}); training is not affected")


def _has_reason(warning: Optional[RunWarning], reason: str) -> bool:
    return warning is not None and warning.reason == reason


def build_connection(endpoint: Endpoint) -> http.client.HTTPConnection:
    parts = urlsplit(endpoint.url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
    context = ssl.create_default_context(cafile=endpoint.ca_file)
    return _Connection(host, parts.port, context=context, hosts_file=endpoint.hosts_file)


class _Connection(http.client.HTTPSConnection):
    """Connects to the address in the hosts file, but verifies the certificate for the name."""

    def __init__(self, host: str, port: Optional[int], *, context: ssl.SSLContext, hosts_file: Optional[str]) -> None:
        super().__init__(host, port, timeout=TIMEOUT_SECONDS, context=context)
        self._ssl_context = context
        self._hosts_file = hosts_file

    def connect(self) -> None:
        address = find_in_hosts_file(self.host, self._hosts_file) or self.host
        plain = socket.create_connection((address, self.port), timeout=TIMEOUT_SECONDS)
        self.sock = self._ssl_context.wrap_socket(plain, server_hostname=self.host)  # closes it if that fails
