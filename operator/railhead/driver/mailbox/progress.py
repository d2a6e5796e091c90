"""Describes the run's progress: what each event changes in it, and which commits are from earlier attempts. Pure."""

from __future__ import annotations

import json
import math
import operator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Dict, Mapping, Optional, Tuple

from railhead.contract.checkpoint_uri import build_checkpoint_uri, split_query
from railhead.contract.report import (
    MAX_METRIC_NAME,
    MAX_METRIC_VALUE,
    MAX_METRICS,
    CommittedCheckpoint,
    RunWarning,
    State,
)
from railhead.driver.messages.redaction import make_printable

# Ray Train's controller states -> contract.report.State, before the group has run and after.
_STATES: Dict[str, Tuple[State, State]] = {
    "INITIALIZING": ("SCHEDULING", "SCHEDULING"),
    "SCHEDULING": ("SCHEDULING", "RESTARTING"),
    "RESCHEDULING": ("SCHEDULING", "RESTARTING"),
    "RUNNING": ("RUNNING", "RUNNING"),
    "PREEMPTING": ("RUNNING", "RUNNING"),
    "RESTARTING": ("SCHEDULING", "RESTARTING"),
    "RESIZING": ("RESTARTING", "RESTARTING"),
    "ERRORED": ("ERRORED", "ERRORED"),
    "ABORTED": ("ERRORED", "ERRORED"),
    "FINISHED": ("FINISHED", "FINISHED"),
}


@dataclass(frozen=True)
class ReportTimes:
    """Seconds of rank 0 when it had uploaded a checkpoint, by its own clock.

    Attributes:
        blocked: in ray.train.report, since its process began to train.
        trained: of training since the report call of this checkpoint: more than 0 after an upload in the background.
    """

    blocked: float = 0.0
    trained: float = 0.0


@dataclass(frozen=True)
class Progress:
    """The latest state of this attempt; `contract.report.Report` documents the fields that both have."""

    state: State = "STARTING"
    has_run: bool = False
    reports: int = 0
    commits: int = 0
    has_last_commit: bool = False  # of a report that began after the ranks were notified that the run ends
    metrics: dict[str, str] = field(default_factory=dict)
    checkpoint: Optional[CommittedCheckpoint] = None
    best_checkpoint: Optional[CommittedCheckpoint] = None
    run_uri: str = ""  # empty = the job's own
    resumed_from: str = ""  # URI; empty = this fit() started from scratch, or there was none yet
    warning: Optional[RunWarning] = None
    is_training: bool = False  # the worker group is polled for reports; not while Ray Train shuts it down or validates
    processes: tuple[str, ...] = ()  # of the current group, as in `rank_marks.name_process`
    times: ReportTimes = field(default_factory=ReportTimes)  # of the group's newest commit

    def begin_run(self, *, resumed_from: str = "", warning: Optional[RunWarning] = None) -> Progress:
        """Returns the progress at the start of another fit(), of which a script may call several.

        The counts continue, and so does `run_uri` until it trains.
        """
        begun = replace(self, state="STARTING", has_run=False, is_training=False, processes=())
        return replace(begun, resumed_from=resumed_from, warning=warning)

    def with_ray_state(self, name: str) -> Progress:
        """Returns the progress in this state of Ray Train's controller.

        An unknown state, or SHUTTING_DOWN, which precedes a final one, does not change the state of the report.
        """
        states = _STATES.get(name)
        if states is None:
            return replace(self, is_training=self.is_training and name != "SHUTTING_DOWN")
        has_run = self.has_run or name == "RUNNING"
        return replace(self, state=states[self.has_run], has_run=has_run, is_training=states[True] == "RUNNING")

    def with_report(self, metrics: Mapping[str, Any]) -> Progress:
        """Returns the progress after one more report from all ranks."""
        return replace(self, reports=self.reports + 1, metrics=format_metrics(metrics))

    def with_commit(self, checkpoint: CommittedCheckpoint) -> Progress:
        return replace(self, commits=self.commits + 1, checkpoint=checkpoint)


def format_metrics(metrics: Mapping[str, Any], *, first: str = "") -> dict[str, str]:
    """Returns the numbers and short strings as text, without values that have no short form.

    There are at most `MAX_METRICS`; the metric `first` is always among them.
    """
    result: dict[str, str] = {}
    # Sorting is stable: all but the first keep their order.
    for name in sorted(metrics, key=partial(operator.ne, first)):
        value = metrics[name]
        text = _format_value(value)
        if text is not None and len(result) < MAX_METRICS:
            result[make_printable(str(name))[:MAX_METRIC_NAME]] = text
    return result


def _format_value(value: Any) -> Optional[str]:
    if not isinstance(value, (bool, int, float, str)) and callable(getattr(value, "item", None)):
        # A scalar of numpy or torch; of a tensor with several elements, this raises.
        try:
            value = value.item()
        except Exception:
            return None
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value:.6g}"
        return str(value)
    if isinstance(value, (bool, int, str)):
        return make_printable(str(value))[:MAX_METRIC_VALUE]
    return None


def find_value(metrics: Mapping[str, Any], name: str) -> object:
    """Returns the value under a name, which may be `a/b` for a nested one; None if there is none."""
    if name in metrics and not isinstance(metrics[name], Mapping):
        return metrics[name]
    for key, inner in metrics.items():
        if isinstance(inner, Mapping) and name.startswith(f"{key}/"):
            found = find_value(inner, name[len(str(key)) + 1 :])
            if found is not None:
                return found
    return None


def is_known_outside(text: str, *, run: str, folder: str) -> bool:
    """Returns whether the status knows a checkpoint of a run with this name that is not in this folder.

    An earlier version of Railhead did not put a run that the user's code has named into the job's folder; such a run
    stays where it began. `text`: as in `parse_known`.
    """
    try:
        found = [known for known in json.loads(text or "[]") if known["run"] == run]
        return bool(found) and all(known.get("folder", folder) != folder for known in found)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def parse_known(text: str, *, run_uri: str) -> dict[str, CommittedCheckpoint]:
    """Returns the status's commits of earlier attempts in this run, by folder's name; empty if malformed.

    They have no metrics.

    `text`: `contract.environment.KNOWN_CHECKPOINTS`, where a script with several runs has the commits of all.
    """
    run = PurePosixPath(split_query(run_uri)[0]).name
    try:
        return {
            str(known["name"]): CommittedCheckpoint(
                build_checkpoint_uri(run_uri, known["name"]),
                int(known["index"]),
                str(known["time"]),
                attempt=int(known["attempt"]),
            )
            for known in json.loads(text or "[]")
            if known["run"] == run
        }
    except (ValueError, KeyError, TypeError):
        return {}
