"""What a reason means, and the sentences that several remedies share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """What a reason means, and what to do about it."""

    sentence: str
    remedy: str

    def write_remedy(self, name: str, *, is_finished: bool) -> str:
        """Returns the remedy for the job of this name; a finished job is changed by a retry."""
        remedy = self.remedy.replace(_WHILE_SUSPENDED, _BY_RETRY) if is_finished else self.remedy
        return remedy.format(name=name)


_WHILE_SUSPENDED = "`railhead suspend {name} --wait`, then `railhead resume {name} --set"
_BY_RETRY = "`railhead retry {name} --set"
_CHANGE = f"run {_WHILE_SUSPENDED} {{field}}`"
WAIT = "Nothing; Railhead continues by itself."
MESSAGE = "Follow the message above."


def change(field: str, before: str = "") -> str:
    """Returns the sentence that changes this field of a job that may run; `before` begins it."""
    text = _CHANGE.replace("{field}", field)
    return f"{before}{text if before else text[0].upper() + text[1:]}."
