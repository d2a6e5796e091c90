"""Measures what the attempt's time is spent on, which the operator accounts for in status.goodput. Pure: the caller
passes the time.

Each stretch between two updates belongs to the state at the first of them. Each change of the mailbox makes the
publisher update it, so a stretch in one state has no other state in it. Only what rank 0 has spent in
ray.train.report follows later: with the checkpoint, else with the next heartbeat.

Training is uncommitted until a checkpoint keeps it, or something else turns out to have taken it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Tuple

from railhead.contract.failure import FailureClass
from railhead.contract.report import ReportedOutcome, RestartInPlace
from railhead.contract.spent import Spent
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress


class TimeMeter:
    """Measures what the time until the last update was spent on, as `spent`."""

    def __init__(self, *, now: float) -> None:
        self.spent = Spent()
        self._at = now
        self._cause = "starting"
        self._has_trained = False
        self._commits = 0
        self._processes: Tuple[str, ...] = ()
        self._blocked = 0  # milliseconds of the current group in reports
        self._restarts = 0
        self._signs_of_life: object = None
        self._silent = 0  # milliseconds of training since the last sign of life

    def update(
        self,
        progress: Progress,
        beat: Optional[Heartbeat],
        *,
        restart: Optional[RestartInPlace] = None,
        outcome: Optional[ReportedOutcome] = None,
        now: float,
    ) -> None:
        """Measures the time since the last update. `restart` and `outcome`: as the report has them."""
        # Differences of whole milliseconds add up to the whole; those that are rounded one by one do not.
        self._add(int(now * 1000) - int(self._at * 1000))
        self._at = max(now, self._at)
        self._take_reports(progress, beat)
        self._keep_commit(progress)
        # What ended a group's training, if that has happened since the last update.
        end = ""
        if outcome is not None:
            end = outcome.outcome
        is_restart = restart is not None and restart.number != self._restarts
        if restart is not None and is_restart:
            self._restarts = restart.number
            end = restart.cause
        if end == FailureClass.HANG.value:
            self._take("hanging", self._silent)
            self._silent = 0
        self._watch_signs_of_life(progress, beat)
        self._cause = self._choose_cause(progress)
        # A new group begins with the last checkpoint, so what the old one has trained since then is trained again.
        if is_restart or self._cause == "restoring":
            self._take("retrained", self.spent.uncommitted)

    def _add(self, passed: int) -> None:
        if passed <= 0 or not self._cause:
            return
        spent = self.spent
        if self._cause == "productive":
            self._silent += passed
            spent = replace(spent, uncommitted=spent.uncommitted + passed)
        self.spent = replace(spent, **{self._cause: getattr(spent, self._cause) + passed})

    def _take_reports(self, progress: Progress, beat: Optional[Heartbeat]) -> None:
        """Takes what the group has spent in reports since the last update: it was measured as training."""
        if progress.processes != self._processes:
            self._processes = progress.processes
            self._blocked = 0
        seconds = progress.times.blocked
        if beat is not None:
            seconds = max(seconds, beat.blocked)
        blocked = round(seconds * 1000)
        taken = self._take("checkpointing", max(blocked - self._blocked, 0))
        self._blocked = blocked
        self._silent = max(self._silent - taken, 0)

    def _keep_commit(self, progress: Progress) -> None:
        """Keeps what was trained up to the report of a committed checkpoint."""
        if progress.commits > self._commits:
            since = min(round(progress.times.trained * 1000), self.spent.uncommitted)
            self._commits = progress.commits
            self.spent = replace(self.spent, uncommitted=since)

    def _take(self, cause: str, milliseconds: int) -> int:
        """Takes uncommitted training that was this instead; returns how much, at most all of it."""
        spent = self.spent
        taken = min(milliseconds, spent.uncommitted)
        self.spent = replace(
            spent,
            productive=spent.productive - taken,
            uncommitted=spent.uncommitted - taken,
            **{cause: getattr(spent, cause) + taken},
        )
        return taken

    def _watch_signs_of_life(self, progress: Progress, beat: Optional[Heartbeat]) -> None:
        alive = beat.alive if beat else 0
        signs = (progress.reports, progress.commits, progress.processes, alive)
        if signs != self._signs_of_life:
            self._signs_of_life = signs
            self._silent = 0

    def _choose_cause(self, progress: Progress) -> str:
        """Returns a field of `Spent`, or an empty string for time that has none, as while a group shuts down."""
        if progress.is_training:
            self._has_trained = True
            return "productive"
        if not self._has_trained:
            return "starting"
        if progress.state in ("STARTING", "SCHEDULING", "RESTARTING"):
            return "restoring"
        return ""
