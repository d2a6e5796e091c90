"""The termination message of the head pod: how an attempt ended, within 4 KiB of JSON.

The driver writes it to the file that `terminationMessagePath` names; the operator reads it
from the pod's status. A job becomes `Succeeded` only through this message.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Dict, Iterator, Optional, Type, TypeVar, cast

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.json_values import load_checked
from railhead.contract.report import CommittedCheckpoint, RunWarning
from railhead.contract.spent import Spent
from railhead.contract.text import clean_line, clean_text

LIMIT_BYTES = 4096  # the kubelet truncates a longer termination message
MESSAGE_CHARS = 1500
WARNING_CHARS = 500
SUCCEEDED = "Succeeded"
T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended.

    Attributes:
        outcome: `Succeeded`, or a `contract.failure.FailureClass`.
        reason: CamelCase word for the status (for example `TrainFunctionRaised`).
        message: a sentence for the user: the field at fault and what to do.
        checkpoint: the newest committed checkpoint, or None.
        best_checkpoint: the one with the best score, as in `contract.report.Report`.
        metrics: the last reported metrics, as text.
        reports: how many reports of all ranks were seen in this attempt.
        process_exit_code, suspect_pod: as in `contract.failure.Failure`.
        restarts, charged_restarts: in place, in this attempt, as in `contract.report.RestartInPlace`.
        warning, spent: as in `contract.report.Report`. The last report has them as well, but it may still wait for its
            turn to be written into the status when the operator sees that the pod has ended.
    """

    outcome: str
    reason: str = ""
    message: str = ""
    checkpoint: Optional[CommittedCheckpoint] = None
    best_checkpoint: Optional[CommittedCheckpoint] = None
    metrics: Dict[str, str] = field(default_factory=dict)
    reports: int = 0
    process_exit_code: Optional[int] = None
    suspect_pod: str = ""
    restarts: int = 0
    charged_restarts: int = 0
    warning: Optional[RunWarning] = None
    spent: Optional[Spent] = None

    @property
    def has_succeeded(self) -> bool:
        return self.outcome == SUCCEEDED

    @property
    def failure(self) -> Optional[Failure]:
        """Returns what ended the attempt; None after success."""
        if self.has_succeeded:
            return None
        kind = FailureClass.parse(self.outcome)
        if kind.policy.exit_code is None:
            # Only the operator assigns the others, and some raise no counter.
            kind = FailureClass.INFRASTRUCTURE
        return Failure(kind, self.reason or self.outcome, self.message, self.process_exit_code, self.suspect_pod)

    def to_json(self) -> str:
        """Writes at most `LIMIT_BYTES` of JSON; drops the least important parts first."""
        text = ""
        for shorter in self._shorter_versions():
            text = json.dumps(shorter._to_dict())
            if len(text.encode()) <= LIMIT_BYTES:
                return text
        return text

    def _shorter_versions(self) -> Iterator[Outcome]:
        """Yields ever shorter outcomes: without metrics, without the warning, with less of the message, without the
        best checkpoint, with the class and reason only."""
        warning = self.warning
        if warning is not None:
            warning = replace(warning, message=shorten_middle(warning.message, WARNING_CHARS))
        cut = replace(self, message=shorten_middle(self.message, MESSAGE_CHARS), warning=warning)
        yield cut
        best = self.best_checkpoint
        cut = replace(
            cut,
            metrics={},
            checkpoint=replace(self.checkpoint, metrics={}) if self.checkpoint else None,
            best_checkpoint=replace(best, metrics={}) if best else None,
        )
        yield cut
        cut = replace(cut, warning=None)
        room = MESSAGE_CHARS
        while room > 1:
            yield cut
            room //= 2
            cut = replace(cut, message=shorten_middle(self.message, room))
        yield cut
        yield replace(cut, best_checkpoint=None)
        yield Outcome(
            self.outcome,
            self.reason[:64],
            process_exit_code=self.process_exit_code,
            restarts=self.restarts,
            charged_restarts=self.charged_restarts,
            spent=self.spent,
        )

    def _to_dict(self) -> Dict[str, object]:
        best = self.best_checkpoint
        return {
            **asdict(self),
            "checkpoint": self.checkpoint.to_dict() if self.checkpoint else None,
            "best_checkpoint": best.to_dict() if best else None,
        }

    @staticmethod
    def from_json(text: str) -> Optional[Outcome]:
        """Returns the outcome, printable, or None when the text is not one (lost, truncated or foreign)."""
        try:
            # An escaped half of a surrogate pair, as Python writes it for a byte in a file name, is no text elsewhere.
            values = json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace"))
            return Outcome(
                outcome=clean_line(str(values["outcome"])),
                reason=clean_line(str(values.get("reason", ""))),
                message=clean_text(str(values.get("message", ""))),
                checkpoint=CommittedCheckpoint.from_dict(values.get("checkpoint") or None),
                best_checkpoint=CommittedCheckpoint.from_dict(values.get("best_checkpoint")),
                metrics={str(k): str(v) for k, v in dict(values.get("metrics") or {}).items()},
                reports=int(values.get("reports", 0)),
                process_exit_code=parse_exit_code(values.get("process_exit_code")),
                suspect_pod=clean_line(str(values.get("suspect_pod", ""))),
                restarts=int(values.get("restarts", 0)),
                charged_restarts=int(values.get("charged_restarts", 0)),
                warning=_read_warning(values.get("warning")),
                spent=_read_optional(Spent, values.get("spent")),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None


def _read_warning(value: object) -> Optional[RunWarning]:
    warning = _read_optional(RunWarning, value)
    if warning is None:
        return None
    return RunWarning(clean_line(warning.reason), clean_text(warning.message))


def _read_optional(kind: Type[T], value: object) -> Optional[T]:
    """Returns None for what an older driver has not written, and for anything else.

    How the attempt ended counts without it: a success is not to be trained again because of a number.
    """
    try:
        return cast("T", load_checked(kind, value))
    except TypeError:
        return None


def parse_exit_code(value: object) -> Optional[int]:
    """Returns the code of a process that failed, None for anything else."""
    if isinstance(value, int) and 0 < value < 256:
        return value
    return None


def shorten_middle(text: str, room: int) -> str:
    """Keeps the beginning and the end: an error's name comes first, its cause last."""
    if len(text) <= room:
        return text
    half = max((room - 5) // 2, 1)
    return text[:half] + " ... " + text[-half:]
