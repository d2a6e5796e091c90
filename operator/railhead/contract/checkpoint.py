"""A committed checkpoint, as driver and operator exchange it, and the limits of its fields in the status."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Optional

# The CRD's limits. The driver truncates to them, and so does the operator, because a pod may send anything.
MAX_METRICS = 64
MAX_METRIC_NAME = 128
MAX_METRIC_VALUE = 256
MAX_URI = 2048
MAX_INDEX = 2**31 - 1  # the CRD's integers are int32


@dataclass(frozen=True)
class Checkpoint:
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
        """JSON; an empty object for `NO_CHECKPOINT`."""
        return {} if self == NO_CHECKPOINT else asdict(self)

    @staticmethod
    def from_dict(values: Any) -> Optional[Checkpoint]:
        """The checkpoint in a JSON object, or None for anything else. Never raises."""
        if not isinstance(values, dict):
            return None
        if not values:
            return NO_CHECKPOINT
        try:
            metrics = {str(name): str(value) for name, value in dict(values.get("metrics") or {}).items()}
            index, attempt = values["index"], values.get("attempt") or 0
            if type(index) is not int or type(attempt) is not int or not isinstance(values["uri"], str):
                return None
            return Checkpoint(values["uri"], index, str(values.get("time") or ""), metrics, attempt)
        except (KeyError, TypeError, ValueError):
            return None


NO_CHECKPOINT = Checkpoint()  # as best checkpoint: no kept checkpoint has a score
