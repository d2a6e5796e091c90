"""What the driver knows of the run's progress, and how each piece of news changes it. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Mapping, Optional

METRICS_LIMIT = 32
TEXT_LIMIT = 200

# Ray Train's controller states -> contract.report.STATES, once the group has run and before.
_STATES = {
    "INITIALIZING": ("SCHEDULING", "SCHEDULING"),
    "SCHEDULING": ("SCHEDULING", "RESTARTING"),
    "RESCHEDULING": ("SCHEDULING", "RESTARTING"),
    "RUNNING": ("RUNNING", "RUNNING"),
    "PREEMPTING": ("RUNNING", "RUNNING"),
    "RESTARTING": ("RESTARTING", "RESTARTING"),
    "RESIZING": ("RESTARTING", "RESTARTING"),
    "ERRORED": ("ERRORED", "ERRORED"),
    "ABORTED": ("ERRORED", "ERRORED"),
    "FINISHED": ("FINISHED", "FINISHED"),
}


@dataclass(frozen=True)
class Progress:
    """The latest state of this attempt; the checkpoints as in `contract.report.Report`."""

    state: str = "STARTING"
    has_run: bool = False
    reports: int = 0
    commits: int = 0
    metrics: dict[str, str] = field(default_factory=dict)
    checkpoint: Optional[dict[str, Any]] = None
    best_checkpoint: Optional[dict[str, Any]] = None
    run_uri: str = ""  # empty = as the job says
    resumed_from: Optional[str] = None  # URI; empty = this fit() began anew, None = not known yet
    warning: Optional[dict[str, str]] = None  # as in `contract.report.Report`
    is_training: bool = False  # the worker group is asked for reports; not while Ray Train ends it, and validates
    processes: tuple[str, ...] = ()  # of the present group, as `marks.name_process`

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Progress:
        return Progress(**{k: v for k, v in values.items() if k in Progress.__dataclass_fields__})

    def begin_run(
        self, *, run_uri: str, resumed_from: Optional[str] = None, warning: Optional[dict[str, str]] = None
    ) -> Progress:
        """Another fit(): a script may call it several times, and the counts go on."""
        begun = replace(self, state="STARTING", has_run=False, is_training=False, processes=())
        return replace(begun, run_uri=run_uri, resumed_from=resumed_from, warning=warning)

    def with_ray_state(self, name: str) -> Progress:
        """An unknown state, or SHUTTING_DOWN, which precedes a final one, changes nothing."""
        states = _STATES.get(name)
        if states is None:
            return replace(self, is_training=self.is_training and name != "SHUTTING_DOWN")
        has_run = self.has_run or name == "RUNNING"
        return replace(self, state=states[self.has_run], has_run=has_run, is_training=states[True] == "RUNNING")

    def with_report(
        self, metrics: Mapping[str, Any], *, checkpoint_uri: Optional[str], first_index: int, time: str
    ) -> Progress:
        """One report of all ranks; `first_index` is that of this attempt's first commit."""
        texts = format_metrics(metrics)
        progress = replace(self, reports=self.reports + 1, metrics=texts)
        if checkpoint_uri is None:
            return progress
        return progress.with_commit(texts, checkpoint_uri=checkpoint_uri, first_index=first_index, time=time)

    def with_commit(self, texts: dict[str, str], *, checkpoint_uri: str, first_index: int, time: str) -> Progress:
        checkpoint = {"uri": checkpoint_uri, "index": first_index + self.commits, "time": time, "metrics": texts}
        return replace(self, commits=self.commits + 1, checkpoint=checkpoint)


def format_metrics(metrics: Mapping[str, Any], *, first: str = "") -> dict[str, str]:
    """Numbers and short texts; what has no short form is left out. `first` is the last to be cut."""
    result: dict[str, str] = {}
    for name, value in sorted(metrics.items(), key=lambda item: item[0] != first):
        text = _format_value(value)
        if text is not None and len(result) < METRICS_LIMIT:
            result[str(name)[:63]] = text
    return result


def _format_value(value: Any) -> Optional[str]:
    if not isinstance(value, (bool, int, float, str)) and callable(getattr(value, "item", None)):
        try:
            value = value.item()  # a scalar of numpy or torch
        except Exception:
            return None
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, (bool, int, str)):
        return str(value)[:TEXT_LIMIT]
    return None


def build_checkpoint_uri(run_uri: str, name: str) -> str:
    """The checkpoint's folder inside the run; a query of the URI stays at its end."""
    path, mark, query = run_uri.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{query}"
