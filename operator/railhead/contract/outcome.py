"""The termination message of the head pod: how an attempt ended, within 4 KiB of JSON.

Written by the driver to the file that `terminationMessagePath` names, read by the
operator from the pod's status. `Succeeded` is only ever said because this says so.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

LIMIT_BYTES = 4096  # the kubelet cuts a longer termination message
MESSAGE_CHARS = 1500
SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended.

    Attributes:
        outcome: `Succeeded`, or a failure class (`contract.exit_codes.CLASS_OF_CODE`).
        reason: CamelCase word for the status (for example `TrainFunctionRaised`).
        message: a sentence for the user; the field at fault and what to do.
        checkpoint: the newest committed checkpoint ({uri, index, time, metrics}) or None.
        best_checkpoint: the one with the best score, as in `contract.report.Report`.
        metrics: the last reported metrics, as text.
        reports: how many reports of all ranks were seen in this attempt.
    """

    outcome: str
    reason: str = ""
    message: str = ""
    checkpoint: Optional[dict[str, Any]] = None
    best_checkpoint: Optional[dict[str, Any]] = None
    metrics: dict[str, str] = field(default_factory=dict)
    reports: int = 0

    def to_json(self) -> str:
        """At most `LIMIT_BYTES` of JSON: metrics go first, then the message is cut."""
        values = asdict(self)
        values["message"] = _middle_cut(self.message, MESSAGE_CHARS)
        text = json.dumps(values)
        if len(text.encode()) > LIMIT_BYTES:
            values["metrics"] = {}
            for key in ("checkpoint", "best_checkpoint"):
                if values[key]:
                    values[key] = dict(values[key], metrics={})
            text = json.dumps(values)
        room = MESSAGE_CHARS
        while len(text.encode()) > LIMIT_BYTES and room > 1:
            room //= 2
            values["message"] = _middle_cut(self.message, room)
            text = json.dumps(values)
        if len(text.encode()) > LIMIT_BYTES:
            text = json.dumps({**values, "best_checkpoint": None})
        if len(text.encode()) > LIMIT_BYTES:
            text = json.dumps({"outcome": self.outcome, "reason": self.reason[:64], "message": ""})
        return text

    @staticmethod
    def from_json(text: str) -> Optional[Outcome]:
        """The outcome, or None when the text is not one (lost, cut or somebody else's)."""
        try:
            values = json.loads(text)
            return Outcome(
                outcome=str(values["outcome"]),
                reason=str(values.get("reason", "")),
                message=str(values.get("message", "")),
                checkpoint=values.get("checkpoint") or None,
                best_checkpoint=values.get("best_checkpoint"),
                metrics={str(k): str(v) for k, v in dict(values.get("metrics") or {}).items()},
                reports=int(values.get("reports", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def _middle_cut(text: str, room: int) -> str:
    """Keeps the beginning and the end: an error's name stands first, its cause last."""
    if len(text) <= room:
        return text
    half = max((room - 5) // 2, 1)
    return text[:half] + " ... " + text[-half:]
