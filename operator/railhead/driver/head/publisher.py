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
    CHECKPOINT_NOT_WRITTEN,
    MAX_LOST_PODS,
    PATH,
    SILENCE_SECONDS,
    Report,
    ResumedFrom,
    RunWarning,
    SlowRank,
    Steps,
    without_scores,
)
from railhead.contract.times import now_text
from railhead.driver.container.hosts import compute_pause, find_in_hosts_file
from railhead.driver.head.estimate import MetricReader, RunEstimate
from railhead.driver.head.time_meter import TimeMeter
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.exception_text import read_text
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact

SHORTEST_INTERVAL_SECONDS = 0.5  # between two reports
FIRST_WAIT_SECONDS = 0.3
LONGEST_WAIT_SECONDS = 10.0
# Between tries of the last report, of which each waits a step longer than the one before.
LAST_WAIT_STEP_SECONDS = 0.2
LONGEST_LAST_WAIT_SECONDS = 2.0
TIMEOUT_SECONDS = 5.0
# The endpoint has read the report and rejects it; a retry would get the same response.
_REFUSED = (400, 413, 422)


@dataclass(frozen=True)
class Endpoint:
    """The operator's report endpoint.

    Attributes:
        token_file: read again for each report, since the kubelet rotates it.
        hosts_file: of a local node, which has no DNS.
    """

    url: str
    token_file: Optional[str]
    ca_file: Optional[str]
    hosts_file: Optional[str] = None


class Publisher:
    """Builds the report, and sends it whenever it has changed enough.

    `base` has the fields that do not change; the rest comes from the mailbox and from `update`.

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
        self._meter = TimeMeter(now=time.monotonic())
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
        """Takes back the driver's own warning, if it has this reason."""

        def forget(report: Report) -> Report:
            if _has_reason(report.warning, reason):
                return replace(report, warning=None)
            return report

        self.update(forget)

    def shows(self, reason: str) -> bool:
        """Tells whether the driver's own warning has this reason."""
        with self._lock:
            return _has_reason(self._report.warning, reason)

    def build_report(self) -> Report:
        """Returns the current state, without a time. Any thread may ask for it."""
        # The lock is also around the reads: a state that another thread has read earlier may not come later.
        with self._lock:
            base = self._report
            fit = self._mailbox.read_newest_fit()
            script = self._mailbox.script.read()
            progress = fit.progress
            now = time.monotonic()
            steps = Steps()
            slow_ranks: tuple[SlowRank, ...] = ()
            if fit.heartbeat:
                steps = fit.heartbeat.steps
                slow_ranks = fit.heartbeat.slow_ranks
            # The attempt's own end, which `end_attempt` sets, is the last word; until then the controller's counts.
            end = ""
            state = progress.state
            finishing = base.finishing
            if base.state in ("FINISHED", "ERRORED"):
                end = base.state
                state = base.state
                finishing = ""
            steps = self._estimate.add(steps, progress, now=now, end=end)
            self._meter.update(progress, fit.heartbeat, restart=fit.restart, outcome=base.outcome, now=now)
        resumed_from = None
        if progress.resumed_from:
            resumed_from = ResumedFrom(progress.resumed_from)
        return replace(
            base,
            state=state,
            reports=progress.reports,
            workers=len(progress.processes),
            metrics=progress.metrics,
            checkpoint=progress.checkpoint,
            best_checkpoint=progress.best_checkpoint,
            run_uri=progress.run_uri or base.run_uri,
            tracker_url=fit.tracker_url,
            resumed_from=resumed_from,
            warning=fit.warning
            or base.warning
            or script.warning
            or _warn_of_stuck_save(fit.heartbeat)
            or fit.rule_warning
            or progress.warning,
            lost_pods=(*fit.lost_pods, *base.lost_pods)[:MAX_LOST_PODS],
            restart=fit.restart,
            steps=steps,
            slow_ranks=slow_ranks,
            finishing=finishing,
        )

    def build_complete_report(self) -> Report:
        """Returns the current state with its time, and with what the attempt's time was spent on until then."""
        return self._complete(self.build_report())

    def _complete(self, report: Report) -> Report:
        return replace(report, time=now_text(), spent=self._meter.spent)

    def begin_stop(self) -> None:
        """Lets the thread end once the operator has the last state."""
        self._stopping.set()
        self._mailbox.wake()

    def has_stopped(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds for the last state to be sent; tells whether it has been."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait_stopped(self, timeout: float) -> None:
        """Waits like `has_stopped`; afterwards there are no more retries."""
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
        failures = 0
        # Since the stop began.
        last_failures = 0
        while not self._given_up.is_set():
            report = self.build_report()
            is_sent = report == self._sent
            if is_sent and self._stopping.is_set():
                return
            left = self._count_seconds_left(report)
            if left > 0 and not self._stopping.is_set():
                # A change that may wait is sent with what comes soon after it.
                shortest = 0.0 if is_sent else SHORTEST_INTERVAL_SECONDS
                self._wait(shortest, left)
                continue
            if self._post(report, endpoint):
                self._sent = report
                self._sent_at = time.monotonic()
                failures = 0
                wait = SHORTEST_INTERVAL_SECONDS
            else:
                wait = compute_pause(failures, first=FIRST_WAIT_SECONDS, longest=LONGEST_WAIT_SECONDS)
                failures += 1
                # All heads lose the operator at the same time, and are not to come back at the same time.
                wait *= random.uniform(0.5, 1.0)
            if self._stopping.is_set():
                last_failures += 1
                wait = 0.0
                if failures:
                    wait = min(LAST_WAIT_STEP_SECONDS * last_failures, LONGEST_LAST_WAIT_SECONDS)
            self._wait(wait, wait)

    def _count_seconds_left(self, report: Report) -> float:
        """Returns the seconds until this report is to be sent, if nothing changes; 0 or less: now."""
        known = self._sent
        if known is None:
            return 0.0
        passed = time.monotonic() - self._sent_at
        # Steps and scores change all the time, and are worth no report of their own.
        report = replace(report, steps=known.steps)
        if without_scores(report.slow_ranks) == without_scores(known.slow_ranks):
            report = replace(report, slow_ranks=known.slow_ranks)
        if report == known:
            # A group that trains needs the answer, by which it learns of changes of the spec.
            if report.state == "RUNNING":
                return SILENCE_SECONDS - passed
            return SILENCE_SECONDS
        if replace(report, reports=known.reports, joined=known.joined, metrics=known.metrics) == known:
            return min(self.answer.next_report_seconds, SILENCE_SECONDS) - passed
        return 0.0

    def _wait(self, at_least: float, at_most: float) -> None:
        """Waits until something changes, for seconds between these. A stop ends it early."""
        began = time.monotonic()
        until = began + at_most
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return
            if select.select([self._socket], [], [], left)[0]:
                self._socket.recv(16)
                until = began + at_least
            if self._stopping.is_set():
                return

    def _post(self, report: Report, endpoint: Endpoint) -> bool:
        """Sends the report; tells whether it need not be sent again."""
        # The time is added only here: with it no report would be equal to the last one, and each would be sent.
        body = self._complete(report).to_json()
        try:
            status, answer = self._request(body, endpoint)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._drop_connection()
            self._log_problem(f"{type(error).__name__}: {read_text(error)}")
            return False
        if 200 <= status < 300:
            self._problem = ""
            self._read_answer(answer)
            return True
        self._log_problem(f"status {status}")
        return status in _REFUSED

    def _read_answer(self, answer: bytes) -> None:
        """Stores the answer, also in the mailbox. A body that is not an answer changes nothing."""
        with contextlib.suppress(ValueError):
            self.answer = Answer.from_json(answer)
            # Without the interval, which differs in each answer: each change of the mailbox wakes this thread.
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

    def _log_problem(self, problem: str) -> None:
        """Logs a repeated problem only once: it may last for hours."""
        if problem == self._problem:
            return
        self._problem = problem
        log(f"the operator did not accept a report ({problem}); training is not affected")


def _warn_of_stuck_save(beat: Optional[Heartbeat]) -> Optional[RunWarning]:
    if beat is None or not beat.stuck_save:
        return None
    return RunWarning(CHECKPOINT_NOT_WRITTEN, redact(beat.stuck_save))


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
        # wrap_socket closes the plain socket if the handshake fails.
        self.sock = self._ssl_context.wrap_socket(plain, server_hostname=self.host)
