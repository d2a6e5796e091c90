"""A report: what the driver tells the operator while training runs.

One JSON object by `POST {url}/v1/report`, with the pod's projected token as bearer. Each
report holds the whole latest state, so that a lost or skipped one costs nothing. The answer
to one that was taken is a JSON object; its `DEADLINE` is spec.progressDeadlineSeconds as it is
now, or null. While its group trains, a driver says a word at least every `SILENCE_SECONDS`, so
that it learns of a change.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Optional

PATH = "/v1/report"
AUDIENCE = "railhead.dev/report"  # of the projected token; the API server refuses it for itself
LIMIT_BYTES = 65536
DEADLINE = "progressDeadlineSeconds"
SILENCE_SECONDS = 60.0
STATES = (
    "STARTING",  # Ray comes up, workers join
    "SCHEDULING",  # Ray Train starts the worker group
    "RUNNING",
    "RESTARTING",  # the group re-forms in the same fit()
    "FINISHED",
    "ERRORED",
)
# Reasons of a warning that checkpoints were lost: the run went on from an older one.
CHECKPOINT_MISSING, CHECKPOINT_INCOMPLETE, SNAPSHOT_UNREADABLE = LOSSES = (
    "CheckpointMissing",
    "CheckpointIncomplete",
    "SnapshotUnreadable",
)


@dataclass(frozen=True)
class Report:
    """The driver's latest word about one attempt.

    Attributes:
        namespace, name, uid: the TrainJob.
        attempt: which attempt speaks; an older one is refused.
        state: one of `STATES`.
        reports: reports of the whole worker group in this attempt.
        joined: worker pods (Ray nodes) that have joined.
        workers: Ray Train workers of the present group, 0 while there is none.
        metrics: rank 0's last metrics, numbers as text.
        time: RFC 3339, UTC; when the state was taken.
        checkpoint: {uri, index, time, metrics} of the newest committed one, or None.
        best_checkpoint: {uri, index, time, metrics, attempt} of the one with the best score; empty
            when none of those that are kept has a score; None when nothing is known of scores.
        run_uri: where the run keeps its checkpoints.
        resumed_from: {uri} that this attempt began from, or None.
        warning: {reason, message} of what the user should change, though training runs; or None.
    """

    namespace: str
    name: str
    uid: str
    attempt: int
    state: str
    reports: int = 0
    joined: int = 0
    workers: int = 0
    metrics: dict[str, str] = field(default_factory=dict)
    time: str = ""
    checkpoint: Optional[dict[str, Any]] = None
    best_checkpoint: Optional[dict[str, Any]] = None
    run_uri: str = ""
    resumed_from: Optional[dict[str, Any]] = None
    warning: Optional[dict[str, Any]] = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Report:
        """Raises ValueError with the field's name when a value has the wrong type."""
        wanted = {
            "namespace": str, "name": str, "uid": str, "attempt": int, "state": str,
            "reports": int, "joined": int, "workers": int, "metrics": dict, "time": str, "run_uri": str,
        }  # fmt: skip
        if not isinstance(values, dict):
            raise ValueError("report: not an object")
        for key, kind in wanted.items():
            if key in values and (not isinstance(values[key], kind) or isinstance(values[key], bool)):
                raise ValueError(f"report.{key}: not of type {kind.__name__}")
        for key in ("namespace", "name", "uid", "attempt", "state"):
            if key not in values:
                raise ValueError(f"report.{key}: missing")
        if values["state"] not in STATES:
            raise ValueError("report.state: unknown")
        for key in ("checkpoint", "best_checkpoint", "resumed_from", "warning"):
            if values.get(key) is not None and not isinstance(values[key], dict):
                raise ValueError(f"report.{key}: not an object")
        known = {k: v for k, v in values.items() if k in Report.__dataclass_fields__}
        return Report(**known)
