"""Accounts for the job's time as of a moment: productive and lost seconds add up to all of it.

Time is settled once, in whole seconds: each settlement divides the seconds since the last one between what the driver
has counted since then and, for the rest, the state in which the job was. docs/concepts/goodput.md has the precedence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic.alias_generators import to_camel

from railhead.api import conditions as types
from railhead.api.goodput import MOST, MOST_INTERRUPTIONS, GoodputStatus, LostSeconds, SettledStatus, SpentStatus
from railhead.api.status import JobStatus
from railhead.contract.failure import FailureClass
from railhead.contract.times import format_time, parse_time
from railhead.planning.facts.reasons import BY_QUOTA, RELEASED

# A driver may report more than has passed since the last settlement. The first of these get their time first.
PRECEDENCE = ("productive", "retrained", "hanging", "checkpointing", "restoring", "starting")
PRODUCTIVE = "productive"


def is_over(status: JobStatus) -> bool:
    """Whether the attempt has ended, as far as the status says."""
    failed = status.failure is not None and status.failure.attempt == status.attempt
    return failed or status.is_finished or status.is_resting or status.phase in ("Succeeded", "Failed")


def find_cause(status: JobStatus) -> str:
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
        return "draining"  # the driver has waited for the last checkpoint, and its pod ends
    if status.phase in ("Pending", "Starting", "Restarting") and not status.head.pod:
        return "pods_pending"
    return {"Pending": "pods_pending", "Starting": "starting", "Restarting": "restoring"}.get(status.phase, "other")


def _waits_for_others(status: JobStatus) -> bool:
    """Whether it has no pods, or too few to train, since other jobs have what they need."""
    if is_over(status):
        return status.failure is not None and status.failure.reason in RELEASED
    return status.phase in ("Pending", "Restarting") and status.reason_of(types.RECONCILING) in BY_QUOTA


def settle_time(old: JobStatus, new: JobStatus, *, now: datetime, gpus: int) -> GoodputStatus:
    """Returns status.goodput for the status `new` that follows `old` now; `gpus`: of all worker pods of `old`."""
    known = old.goodput
    since = parse_time(known.time) if known else None
    if known is None or since is None:
        return GoodputStatus(time=format_time(now))  # counting begins

    # How many seconds are settled, and what each was spent on.
    spent = _find_spent(old)
    ends = old.attempt != new.attempt or is_over(new)
    until = now
    if spent is not None and not ends:
        # The driver counts the time since its last report itself: it is settled with the next report.
        until = min(parse_time(old.progress.update_time) or now, now)
    seconds = max(int((until - since) / timedelta(seconds=1)), 0)
    before = _find_settled(known, old.attempt)
    shares, back = _find_new(spent or SpentStatus(), before)
    kept = count_kept(known)
    divided = divide(shares, seconds, rest=find_cause(old))
    divided.update(_take_back(back, known.productive_seconds - kept))

    # The sums with these seconds.
    productive = known.productive_seconds + divided[PRODUCTIVE]
    open_seconds = productive - kept  # what the end of the attempt may take back
    lost = dict(known.lost_seconds)
    for cause, part in divided.items():
        if cause != PRODUCTIVE:
            lost[cause] += part
    settled = known.settled
    if ends:
        settled = None
    elif spent is not None:
        settled = _settle(spent, before, divided, attempt=old.attempt, most=open_seconds)
    if spent is not None and ends and _is_uncommitted_lost(old, new):
        retrained = min(round(spent.uncommitted / 1000), open_seconds)
        productive -= retrained
        lost["retrained"] += retrained
    total = _add_seconds(known, seconds, productive=productive, lost=lost, held_gpus=_count_held(old, gpus), gpus=gpus)
    return total.model_copy(
        update={
            "time": format_time(since + timedelta(seconds=seconds)),
            "interruptions": _count_interruptions(known.interruptions, old, new),
            "settled": settled,
        }
    )


def _add_seconds(
    known: GoodputStatus, seconds: int, *, productive: int, lost: Mapping[str, int], held_gpus: int, gpus: int
) -> GoodputStatus:
    """Returns the account with these seconds more, and the new sums of productive and of lost time.

    Each number has a limit, since a status that a user has edited may have any numbers.
    """
    wall = known.wall_seconds + seconds
    percent = ""
    if wall:
        percent = f"{100 * min(productive, wall) / wall:.1f}"
    gpu_seconds = min(known.gpu_seconds + seconds * held_gpus, MOST)
    trained = productive - known.productive_seconds
    lost_gpu_seconds = known.lost_gpu_seconds + seconds * held_gpus - trained * gpus
    return GoodputStatus(
        percent=percent,
        time=known.time,
        wall_seconds=min(wall, MOST),
        productive_seconds=min(productive, MOST),
        lost_seconds=LostSeconds(**{cause: min(number, MOST) for cause, number in lost.items()}),
        gpu_seconds=gpu_seconds,
        lost_gpu_seconds=min(max(lost_gpu_seconds, 0), gpu_seconds),
    )


def _find_spent(status: JobStatus) -> SpentStatus | None:
    """Returns what the driver of the current attempt has counted; None if it has reported nothing, or has ended."""
    if status.progress.attempt != status.attempt or is_over(status):
        return None
    return status.progress.spent


def _take_back(back: Mapping[str, int], open_seconds: int) -> Counter[str]:
    """Moves whole seconds from the productive time to other causes, at most those that no checkpoint keeps."""
    moved = Counter[str]()
    for cause, milliseconds in back.items():
        part = min(milliseconds // 1000, max(open_seconds, 0))
        open_seconds -= part
        moved[cause] += part
        moved[PRODUCTIVE] -= part
    return moved


def _is_uncommitted_lost(old: JobStatus, new: JobStatus) -> bool:
    """Whether an attempt that ends has committed no checkpoint at its end, so that the next one trains this again."""
    return new.phase != "Succeeded" and old.newest_index == new.newest_index


def _count_held(status: JobStatus, gpus: int) -> int:
    """Returns how many GPUs the attempt holds: none before the first one, after its end, and in a queue."""
    if status.attempt <= 0 or is_over(status) or find_cause(status) == "queued":
        return 0
    return gpus


def divide(shares: Mapping[str, int], seconds: int, *, rest: str) -> Counter[str]:
    """Divides the seconds by these milliseconds, and gives the others to `rest`; by the largest remainder."""
    left = seconds * 1000
    parts = Counter[str]()
    for cause in PRECEDENCE:
        parts[cause] = min(shares.get(cause, 0), left)
        left -= parts[cause]
    parts[rest] += left
    whole = Counter({cause: part // 1000 for cause, part in parts.items()})
    missing = seconds - whole.total()
    by_remainder = sorted((-(part % 1000), cause) for cause, part in parts.items())
    for _, cause in by_remainder[:missing]:
        whole[cause] += 1
    return +whole  # without those that got nothing


def count_kept(goodput: GoodputStatus | None) -> int:
    """Returns the productive seconds that no loss can take back: it never decreases."""
    if goodput is None:
        return 0
    open_seconds = round(goodput.settled.uncommitted / 1000) if goodput.settled else 0
    return max(goodput.productive_seconds - open_seconds, 0)


def count_seconds(old: GoodputStatus | None, new: GoodputStatus | None) -> dict[str, int]:
    """Returns the seconds by cause that the newer one adds, `productive` among them, as counters take them."""
    seconds = {PRODUCTIVE: count_kept(new) - count_kept(old)}
    before = old.lost_seconds if old else LostSeconds()
    for cause, number in new.lost_seconds if new else LostSeconds():
        seconds[to_camel(cause)] = number - getattr(before, cause)
    return {cause: number for cause, number in seconds.items() if number > 0}


def _find_new(spent: SpentStatus, settled: SpentStatus) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the milliseconds to divide, and those of earlier settlements that are productive no longer."""
    new = {cause: max(getattr(spent, cause) - getattr(settled, cause), 0) for cause in PRECEDENCE}
    taken = max(settled.productive - spent.productive, 0)
    back = {}
    for cause in ("hanging", "retrained", "checkpointing"):
        back[cause] = min(new[cause], taken)
        new[cause] -= back[cause]
        taken -= back[cause]
    return new, back


def _find_settled(known: GoodputStatus, attempt: int) -> SpentStatus:
    """Returns what is settled of the attempt. An operator that does not count may have led when an earlier one ended,
    and has left what was settled of that."""
    settled = known.settled
    if settled is None or settled.attempt != attempt:
        return SpentStatus()
    return settled


def _settle(
    spent: SpentStatus, before: SpentStatus, divided: Counter[str], *, attempt: int, most: int
) -> SettledStatus:
    """Returns what is settled now, with at most so many uncommitted seconds: rounding takes back nothing that is kept.
    What rounding has left over, less than a second of each cause, is settled later."""
    taken = {cause: divided[cause] * 1000 for cause in PRECEDENCE}
    settled = {}
    for cause in PRECEDENCE:
        own = getattr(spent, cause)
        settled[cause] = min(max(getattr(before, cause) + taken[cause], own - 999, 0), own + 999, MOST)
    return SettledStatus(**settled, attempt=attempt, uncommitted=min(spent.uncommitted, max(most, 0) * 1000))


def _is_loss(old: JobStatus, new: JobStatus) -> bool:
    """Whether a new round replaces pods that ran. Pods that their nodes refuse or do not start raise no number of
    rounds; they interrupt only training, if a kubelet refuses a pod that ran."""
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
    return {class_: min(count, MOST_INTERRUPTIONS) for class_, count in counts.items()}
