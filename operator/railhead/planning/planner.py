"""`plan()`: one pass over one job. The decisions in their order; the first that answers wins.

Total: for any observed state it returns a plan. What is decided here is done by
`controller/executor.py` and seen again only through the watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from railhead.planning.announce import announce
from railhead.planning.attempt import decide_first_attempt
from railhead.planning.clean_up import decide_clean_up
from railhead.planning.deadlines import decide_active_deadline, decide_startup_deadline, next_due
from railhead.planning.hands_off import decide_finished, decide_hands_off, decide_invalid, decide_strays
from railhead.planning.hold_back import hold_back
from railhead.planning.loss import decide_loss
from railhead.planning.next_attempt import decide_next_attempt
from railhead.planning.observed import Observed
from railhead.planning.plan import Plan
from railhead.planning.progress import decide_progress
from railhead.planning.release import decide_release
from railhead.planning.replacement import decide_replacement
from railhead.planning.resize import decide_resize
from railhead.planning.resume_from import decide_source
from railhead.planning.status_write import build_status_write
from railhead.planning.success import decide_success
from railhead.planning.suspend import decide_suspend
from railhead.planning.warnings import add_warning_events

DECISIONS: tuple[Callable[[Observed], Plan | None], ...] = (
    decide_clean_up,
    decide_finished,
    decide_invalid,
    decide_active_deadline,
    decide_suspend,
    decide_source,
    decide_first_attempt,
    decide_strays,
    decide_next_attempt,
    decide_success,
    decide_loss,
    decide_startup_deadline,
    decide_release,
    decide_resize,
    decide_replacement,
    decide_progress,
)


def plan(observed: Observed) -> Plan:
    """What to do now about this job."""
    theirs = decide_hands_off(observed)
    if theirs is not None:
        return theirs
    for decide in DECISIONS:
        decided = decide(observed)
        if decided is not None:
            told = add_warning_events(observed, hold_back(observed, decided))
            return announce(observed, _acknowledge(observed, told))
    return announce(observed, _acknowledge(observed, Plan()))


def _acknowledge(observed: Observed, decided: Plan) -> Plan:
    """A changed spec is acknowledged also when there is nothing else to say: tools wait for it. Limits are kept."""
    due = next_due(observed)
    gone = observed.next_out_of_reach
    wakes = [at for at in (decided.wake_at, due, gone if not observed.status.is_finished else None) if at is not None]
    decided = replace(decided, wake_at=min(wakes, default=None))
    if decided.status is not None or observed.status.observed_generation == observed.generation:
        return decided
    return replace(decided, status=build_status_write(observed, list(observed.status.conditions)))
