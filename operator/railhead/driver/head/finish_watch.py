"""Watches what Ray Train still waits for when the training function has returned on all ranks. Pure.

That is a validation, or a checkpoint that is uploaded in the background. Ray Train waits for both without a limit of
its own, and no rank makes a step meanwhile.
"""

from __future__ import annotations

from railhead.driver.mailbox.values import FromController

# Most runs end sooner, and their status need not change for it.
SHOWN_AFTER_SECONDS = 30.0
# What takes that long seems to hang. It is long, since a validation has no way to show that it is alive.
WINDOW_SECONDS = 1800.0
# A driver that was suspended for longer saw nothing meanwhile, so no more than this counts.
LONGEST_LOOK_SECONDS = 5.0
ADVICE = (
    "A validation ends by itself after the timeout_s of Ray Train's ValidationTaskConfig; an upload function needs a "
    "limit of its own. spec.hangPolicy Restart begins a new attempt after twice the time"
)


class FinishWatch:
    """Counts for how long Ray Train has waited for the same.

    Attributes:
        text: a sentence for the status, with the time when the wait began; empty while there is none.
        idle: seconds since then.
    """

    def __init__(self) -> None:
        self.text = ""
        self.idle = 0.0
        self._known = ""
        self._since = ""
        self._looked_at = 0.0

    @property
    def is_waiting(self) -> bool:
        return bool(self._known)

    def update(self, fit: FromController, *, now: float, time: str) -> None:
        """Checks whether fit() waits, and since when. `now`: by a clock that never jumps; `time`: as Kubernetes
        writes it."""
        words = find_wait(fit)
        if words != self._known:
            self._known = words
            self._since = time
            self.idle = 0.0
        elif words:
            self.idle += min(now - self._looked_at, LONGEST_LOOK_SECONDS)
        self._looked_at = now
        self.text = ""
        if words and self.idle >= SHOWN_AFTER_SECONDS:
            self.text = (
                f"The training function has returned on all ranks. Since {self._since}, Ray Train waits for {words}."
            )


def find_wait(fit: FromController) -> str:
    """Returns what Ray Train waits for, as a part of a sentence; an empty string while it still trains."""
    if fit.failure is not None:
        return ""
    if fit.validations:
        return fit.validations
    if not fit.progress.is_training or fit.heartbeat is None or not fit.heartbeat.last_uploads:
        return ""
    if fit.heartbeat.last_uploads == 1:
        return "the upload of a checkpoint"
    return f"{fit.heartbeat.last_uploads} uploads of checkpoints"
