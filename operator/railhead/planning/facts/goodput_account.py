"""Accounts for the job's time as of a moment: productive and lost seconds add up to all of it.

Each settlement divides the whole seconds since the last one: first by what the driver of the attempt has measured, the
rest by the state in which the job was. Training is open until something decides what it was: a checkpoint keeps it, a
loss makes it `retrained`, and a hang or ray.train.report takes its part of it. Open seconds count as productive, and a
later settlement may give them to another cause; all others stay. docs/concepts/goodput.md has the precedence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic.alias_generators import to_camel

from railhead.api import conditions as types
from railhead.api.fit import fit
from railhead.api.goodput import GoodputStatus, LostSeconds, SettledStatus, SpentStatus
from railhead.api.status import JobStatus, replace_status
from railhead.contract.failure import FailureClass
from railhead.contract.times import format_time, parse_time
from railhead.planning.facts.reasons import BY_QUOTA, RELEASED

PRODUCTIVE = "productive"
KEPT = "kept"  # training that no loss can take back
OPEN = "open"  # training that nothing has decided yet
# What a driver measures besides training that a checkpoint keeps.
MEASURED = ("retrained", "hanging", "checkpointing", "restoring", "starting")


def is_over(status: JobStatus) -> bool:
    """Returns whether the attempt has ended, as far as the status says."""
    failed = status.failure is not None and status.failure.attempt == status.attempt
    return failed or status.is_finished or status.is_resting or status.phase in ("Succeeded", "Failed")


def choose_time_cause(status: JobStatus) -> str:
    """Returns the cause for time in this state that no driver has counted."""
    if status.phase == "Suspended":
        return "suspended"
    if status.phase == "Suspending":
        return "draining"
    if status.phase == "Queued":
        return "queued"
    if _waits_for_others(status):
        return "queued"
    if is_over(status):
        return "restoring"
    last = None
    if status.progress.attempt == status.attempt:
        last = status.progress.outcome
    if last is not None and last.outcome == FailureClass.PREEMPTION.value:
        # The driver has waited for the last checkpoint, and its pod ends.
        return "draining"
    if status.phase in ("Pending", "Starting", "Restarting") and not status.head.pod:
        return "pods_pending"
    return {"Pending": "pods_pending", "Starting": "starting", "Restarting": "restoring"}.get(status.phase, "other")


def _waits_for_others(status: JobStatus) -> bool:
    """Returns whether it has no pods, or too few to train, since other jobs have what they need."""
    if is_over(status):
        return status.failure is not None and status.failure.reason in RELEASED
    return status.phase in ("Pending", "Restarting") and status.reason_of(types.RECONCILING) in BY_QUOTA


def settle_time(
    old: JobStatus, new: JobStatus, *, now: datetime, gpus: int, last: SpentStatus | None = None
) -> GoodputStatus:
    """Returns status.goodput for the status `new` that follows `old` now.

    Args:
        gpus: of all worker pods of `old`.
        last: what the driver of an attempt that has ended has counted, by its termination message; None = not known.
    """
    known = old.goodput
    since = parse_time(known.time) if known else None
    if known is None or since is None:
        return GoodputStatus(time=format_time(now))  # counting begins

    spent = _find_spent(old)
    ends = old.attempt != new.attempt or is_over(new)
    if ends and last is not None and not is_over(old) and not _has_last_report(old):
        # A report of before lacks the end.
        spent = last
    until = now
    if spent is not None and not ends:
        # The driver measures the time since its last report itself: it is settled with the next report.
        until = min(parse_time(old.progress.update_time) or now, now)
    # Whole seconds only; the fraction stays before the settled time and is counted with the next settlement.
    seconds = max(int((until - since) / timedelta(seconds=1)), 0)
    given, settled = _divide(known, spent, seconds, attempt=old.attempt, rest=choose_time_cause(old))
    if ends:
        # The next driver counts from zero.
        settled = None
        if spent is not None and _is_uncommitted_lost(old, new):
            given["retrained"] += given.pop(OPEN)
    productive = count_kept(known) + given.pop(KEPT, 0) + given.pop(OPEN, 0)
    wall = known.wall_seconds + seconds
    held = seconds * _count_held(old, gpus)
    trained = (productive - known.productive_seconds) * gpus
    gpu_seconds = known.gpu_seconds + held
    values = {
        "percent": _format_percent(productive, wall),
        "time": format_time(since + timedelta(seconds=seconds)),
        "wall_seconds": wall,
        "productive_seconds": productive,
        "lost_seconds": Counter(dict(known.lost_seconds)) + given,
        "gpu_seconds": gpu_seconds,
        "lost_gpu_seconds": min(known.lost_gpu_seconds + held - trained, gpu_seconds),
        "interruptions": _count_interruptions(known.interruptions, old, new),
        "settled": settled,
    }
    # A status that a user has edited may have any numbers.
    return fit(GoodputStatus, values)


def settle_reported_time(status: JobStatus, *, gpus: int) -> JobStatus:
    """Returns the status with the time until the driver's last report, if the attempt lives: a job that nothing happens
    to may train for days before its status is written for another reason. `gpus`: of all its worker pods."""
    until = parse_time(status.progress.update_time)
    if status.goodput is None or until is None or _find_spent(status) is None:
        return status
    return replace_status(status, goodput=settle_time(status, status, now=until, gpus=gpus))


def _format_percent(productive: int, wall: int) -> str:
    if not wall:
        return ""
    return f"{100 * min(productive, wall) / wall:.1f}"


def _divide(
    known: GoodputStatus, spent: SpentStatus | None, seconds: int, *, attempt: int, rest: str
) -> tuple[Counter[str], SettledStatus | None]:
    """Divides these new seconds, and the open ones, between causes; `rest` gets those that no driver has measured.

    Returns the seconds by cause, and what of `spent` is settled then.
    """
    left = seconds + _count_open(known)
    if spent is None:
        return Counter({rest: seconds}) + Counter({OPEN: left - seconds}), known.settled
    before = Counter[str]()
    # An operator that does not count may have led when an earlier attempt ended, and has left what was settled of it.
    if known.settled is not None and known.settled.attempt == attempt:
        before = _read_seconds(known.settled)
    told = _read_seconds(spent)
    given = Counter[str]()
    # A driver may claim more than there is.
    for cause in (KEPT, *MEASURED):
        given[cause] = min(max(told[cause] - before[cause], 0), left)
        # Each cause takes from what is left, so that the parts never add up to more than the time.
        left -= given[cause]
    # A second of each cause may wait for its time, since two clocks differ by a little. Any more of it was settled by
    # the state of the job before the driver's first report.
    decided = Counter({cause: max(before[cause] + given[cause], told[cause] - 1) for cause in given})
    unmeasured = min(max(left - told[OPEN], 0), seconds)
    given[OPEN] = left - unmeasured
    given[rest] += unmeasured
    return given, _write_settled(decided, open_seconds=given[OPEN], attempt=attempt)


def _count_open(goodput: GoodputStatus) -> int:
    return goodput.productive_seconds - count_kept(goodput)


def _read_seconds(spent: SpentStatus) -> Counter[str]:
    """Returns the whole seconds of each number, and as open training all others of their sum.

    So no decided number decreases while the driver's do not, and none is wrong by a second.
    """
    milliseconds = {cause: getattr(spent, cause) for cause in MEASURED}
    # The numbers come from a pod, and may contradict each other.
    milliseconds[KEPT] = max(spent.productive - spent.uncommitted, 0)
    total = sum(milliseconds.values()) + min(spent.uncommitted, spent.productive)
    told = Counter({cause: number // 1000 for cause, number in milliseconds.items()})
    told[OPEN] = total // 1000 - told.total()
    return told


def _write_settled(decided: Counter[str], *, open_seconds: int, attempt: int) -> SettledStatus:
    seconds = {cause: decided[cause] for cause in MEASURED}
    seconds[PRODUCTIVE] = decided[KEPT] + open_seconds
    seconds["uncommitted"] = open_seconds
    milliseconds = {name: number * 1000 for name, number in seconds.items()}
    return fit(SettledStatus, {**milliseconds, "attempt": attempt})


def _find_spent(status: JobStatus) -> SpentStatus | None:
    """Returns what the driver of the current attempt has counted; None if it has reported nothing, or has ended."""
    if status.progress.attempt != status.attempt or is_over(status):
        return None
    return status.progress.spent


def _has_last_report(status: JobStatus) -> bool:
    """Returns whether the last report of the current attempt's driver, which has its outcome, is in the status."""
    return status.progress.attempt == status.attempt and status.progress.outcome is not None


def _is_uncommitted_lost(old: JobStatus, new: JobStatus) -> bool:
    """Returns whether an attempt that ends has committed no checkpoint at its end, so that the next one trains this
    again."""
    return new.phase != "Succeeded" and old.newest_index == new.newest_index


def _count_held(status: JobStatus, gpus: int) -> int:
    """Returns how many GPUs the attempt holds: none before the first one, after its end, and in a queue."""
    if status.attempt <= 0 or is_over(status) or choose_time_cause(status) == "queued":
        return 0
    return gpus


def count_kept(goodput: GoodputStatus | None) -> int:
    """Returns the productive seconds that no loss can take back: it never decreases."""
    if goodput is None:
        return 0
    open_seconds = goodput.settled.uncommitted // 1000 if goodput.settled else 0
    return max(goodput.productive_seconds - open_seconds, 0)


def count_seconds(old: GoodputStatus | None, new: GoodputStatus | None) -> dict[str, int]:
    """Returns the seconds by cause that the newer one adds, `productive` among them, as counters take them."""
    seconds = {PRODUCTIVE: count_kept(new) - count_kept(old)}
    before = old.lost_seconds if old else LostSeconds()
    for cause, number in new.lost_seconds if new else LostSeconds():
        seconds[to_camel(cause)] = number - getattr(before, cause)
    return {cause: number for cause, number in seconds.items() if number > 0}


def _is_loss(old: JobStatus, new: JobStatus) -> bool:
    """Returns whether a new round replaces pods that ran. Pods that their nodes refuse or do not start raise no
    number of rounds; they interrupt only training, if a kubelet refuses a pod that ran."""
    losses = new.worker_losses
    known = old.worker_losses
    if losses is None or losses == known or new.round <= old.round:
        return False
    rounds = 0
    if known is not None and known.checkpoint == losses.checkpoint:
        rounds = known.rounds
    return losses.rounds > rounds or old.true_since(types.RUNNING) is not None


def _count_interruptions(known: Mapping[str, int], old: JobStatus, new: JobStatus) -> dict[str, int]:
    counts = Counter(known)
    if not is_over(old) and new.failure is not None and new.failure.attempt == old.attempt > 0:
        counts[new.failure.class_.value] += 1
    elif new.attempt == old.attempt and _is_loss(old, new):
        counts["Preemption" if new.restarts.disruptions > old.restarts.disruptions else "Infrastructure"] += 1
    before = old.counted_restarts.number if old.counted_restarts else 0
    after = new.counted_restarts.number if new.counted_restarts else 0
    if new.attempt == old.attempt and after > before and old.progress.restart is not None:
        counts[old.progress.restart.class_.value] += after - before
    return counts
