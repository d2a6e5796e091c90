"""A report: what the driver sends to the operator while training runs.

One JSON object by `POST {url}/v1/report`, with the pod's projected token as bearer token. Each
report holds the complete current state, so that a lost or skipped one does no harm. The response
to an accepted one is a `contract.answer.Answer` as JSON, with a message. While its group trains, a driver reports at
least every `SILENCE_SECONDS`, so that it learns of a change.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, Literal, Optional, Tuple

from railhead.contract.numbers import MAX_INT32
from railhead.contract.spent import Spent

PATH = "/v1/report"
AUDIENCE = "railhead.dev/report"  # of the projected token; the API server does not accept it for itself
LIMIT_BYTES = 65536
MAX_LOST_PODS = 128
MAX_SLOW_RANKS = 8
SILENCE_SECONDS = 60.0
State = Literal[
    "STARTING",  # Ray starts, workers join
    "SCHEDULING",  # Ray Train starts the worker group
    "RUNNING",
    "RESTARTING",  # the group restarts within the same fit()
    "FINISHED",
    "ERRORED",
]
# Reasons of a warning that checkpoints were lost: the run continued from an older one.
CHECKPOINT_MISSING, SNAPSHOT_UNREADABLE = LOSSES = ("CheckpointMissing", "SnapshotUnreadable")
RAY_NOT_TESTED = "RayNewerThanTested"  # reason of a warning
ACCELERATOR_NOT_THERE = "AcceleratorNotThere"  # reason of a warning that lost_pods have the wrong type of GPU
CHECKPOINT_NAME_REPEATED = "CheckpointNameRepeated"  # reason of a warning that an upload overwrites a kept checkpoint
END_NOT_ANNOUNCED = "EndNotAnnounced"  # reason of a warning that this Ray cannot ask for a last checkpoint
NOT_REPORTED = "ProgressDeadlineExceeded"  # reason of a hang by spec.progressDeadlineSeconds
NO_STEPS = "NoSteps"  # reason of a warning that training seems to hang
# Reasons of a warning that the storage takes no checkpoints at the moment: training continues, restarts or waits.
CHECKPOINT_NOT_WRITTEN = "CheckpointNotWritten"
STORAGE_TROUBLES = (CHECKPOINT_NOT_WRITTEN, "StorageUnreachable", "StorageNotShared")


@dataclass(frozen=True)
class RunWarning:
    """Something to fix although training runs: a CamelCase reason, and a message that says what to do."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Steps:
    """How far training is between reports, by rank 0's heartbeat.

    Attributes:
        step, total: as training code passed them to `railhead.training.progress`; None if it did not.
        per_second: steps of `railhead.training.progress`, or else of the optimizers; tokens likewise. Both are decimal
            numbers as text, and empty while they are not known.
        percent, remaining_seconds: how much of the run is done, and how long the rest takes; None while not known.
    """

    step: Optional[int] = None
    total: Optional[int] = None
    per_second: str = ""
    tokens_per_second: str = ""
    percent: Optional[int] = None
    remaining_seconds: Optional[int] = None


@dataclass(frozen=True)
class SlowRank:
    """A rank that has computed slowly for long.

    Attributes:
        rank: its world rank.
        pod: its worker pod.
        score: its pace as a part of the other ranks', or of its own best if that is less; a decimal number below 1.
        since: when that began (RFC 3339, UTC).
    """

    rank: int
    pod: str = ""
    score: str = ""
    since: str = ""


@dataclass(frozen=True)
class ResumedFrom:
    """The checkpoint that an attempt started from."""

    uri: str = ""


@dataclass(frozen=True)
class RestartInPlace:
    """The last restart of the worker group in the same pods, after a failure of its own.

    Attributes:
        number: how many there were in this attempt.
        charged: how many of them spec.backoffLimit counts.
        cause, reason, message, suspect_pod: the failure before it, as in `contract.failure.Failure`; `cause` is the
            class.
        time: when, by the clock of the head's node.
    """

    number: int
    charged: int
    cause: str = ""
    reason: str = ""
    message: str = ""
    suspect_pod: str = ""
    time: str = ""


@dataclass(frozen=True)
class ReportedOutcome:
    """How the attempt ended: the fields of `contract.outcome.Outcome` that the report itself lacks."""

    outcome: str
    reason: str = ""
    message: str = ""
    process_exit_code: Optional[int] = None
    suspect_pod: str = ""


# The CRD's limits. The driver truncates to them, and so does the operator, because a pod may send anything.
MAX_METRICS = 64
MAX_METRIC_NAME = 128
MAX_METRIC_VALUE = 256
MAX_URI = 2048
MAX_FINISHING = 512
MAX_INDEX = MAX_INT32


@dataclass(frozen=True)
class CommittedCheckpoint:
    """One committed checkpoint.

    Attributes:
        uri: where it is.
        index: number of the commit, counted from 0 over all attempts.
        time: when it was committed (RFC 3339, UTC).
        metrics: reported with it, as text.
        attempt: the attempt that committed it, 0 = unknown.
    """

    uri: str = ""
    index: int = -1
    time: str = ""
    metrics: Dict[str, str] = field(default_factory=dict)
    attempt: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON; an empty object for `NO_CHECKPOINT`."""
        if self == NO_CHECKPOINT:
            return {}
        return asdict(self)

    @staticmethod
    def from_dict(values: Any) -> Optional[CommittedCheckpoint]:
        """Returns the checkpoint in a JSON object, or None for anything else. Never raises."""
        if not isinstance(values, dict):
            return None
        if not values:
            return NO_CHECKPOINT
        try:
            metrics = {str(name): str(value) for name, value in dict(values.get("metrics") or {}).items()}
            index = values["index"]
            attempt = values.get("attempt") or 0
            if type(index) is not int or type(attempt) is not int or not isinstance(values["uri"], str):
                return None
            return CommittedCheckpoint(values["uri"], index, str(values.get("time") or ""), metrics, attempt)
        except (KeyError, TypeError, ValueError):
            return None


NO_CHECKPOINT = CommittedCheckpoint()  # as best checkpoint: no kept checkpoint has a score


@dataclass(frozen=True)
class Report:
    """The driver's latest progress in one attempt. `controller/report/server.py` validates incoming reports against it.

    Attributes:
        namespace, name, uid: the TrainJob.
        attempt: the attempt that reports; an older one is rejected.
        reports: reports of the whole worker group in this attempt.
        joined: worker pods (Ray nodes) that have joined.
        workers: Ray Train workers of the current group, 0 while there is none.
        metrics: rank 0's last metrics, numbers as text.
        steps: how far training is between reports; it alone is never a reason to report at once.
        spent: what the attempt's time was spent on; it alone is no reason to report. None = not counted.
        time: RFC 3339, UTC; when the state was recorded.
        checkpoint: the newest committed one, or None; its `attempt` is this one.
        best_checkpoint: the one with the best score; `NO_CHECKPOINT`, on the wire an empty object, when no
            kept checkpoint has a score; None when scores are unknown.
        run_uri: where the run keeps its checkpoints.
        tracker_url: where a tracker shows the run; empty = this attempt has not learned of any.
        resumed_from: the checkpoint that this attempt started from, or None.
        warning: or None.
        lost_pods: names of worker pods whose Ray nodes do not answer the driver, of the last loss, at most
            `MAX_LOST_PODS`.
        restart: the last restart in place, or None.
        finishing: what the run still waits for when the function has returned on all ranks; a sentence, or empty.
        slow_ranks: at most `MAX_SLOW_RANKS`; their scores alone are no reason to report.
        outcome: only in the attempt's last report; the operator uses it when the head pod vanishes with its
            termination message.
    """

    namespace: str
    name: str
    uid: str
    attempt: int
    state: State
    reports: int = 0
    joined: int = 0
    workers: int = 0
    metrics: Dict[str, str] = field(default_factory=dict)
    time: str = ""
    checkpoint: Optional[CommittedCheckpoint] = None
    best_checkpoint: Optional[CommittedCheckpoint] = None
    run_uri: str = ""
    tracker_url: str = ""
    resumed_from: Optional[ResumedFrom] = None
    warning: Optional[RunWarning] = None
    outcome: Optional[ReportedOutcome] = None
    lost_pods: Tuple[str, ...] = ()
    restart: Optional[RestartInPlace] = None
    steps: Steps = field(default_factory=Steps)
    spent: Optional[Spent] = None
    slow_ranks: Tuple[SlowRank, ...] = ()
    finishing: str = ""

    def to_json(self) -> bytes:
        """Writes at most `LIMIT_BYTES`: when the metrics are too large, drops those of the checkpoints first."""
        best = self.best_checkpoint
        newest = self.checkpoint
        without_best = replace(self, best_checkpoint=best and replace(best, metrics={}))
        without_newest = replace(without_best, checkpoint=replace(newest, metrics={}) if newest else None)
        text = b""
        for report in (self, without_best, without_newest, replace(without_newest, metrics={})):
            text = json.dumps(report.to_dict(), ensure_ascii=False).encode(errors="replace")
            if len(text) <= LIMIT_BYTES:
                break
        return text

    def to_dict(self) -> Dict[str, Any]:
        best = self.best_checkpoint
        return {
            **asdict(self),
            "checkpoint": self.checkpoint.to_dict() if self.checkpoint else None,
            "best_checkpoint": best.to_dict() if best else None,
        }


def without_scores(ranks: Tuple[SlowRank, ...]) -> Tuple[SlowRank, ...]:
    """Returns who is slow, and since when."""
    return tuple(replace(each, score="") for each in ranks)
