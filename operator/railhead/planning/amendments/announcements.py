"""What a driver's report announces besides progress: its warning becomes a condition, and its commits and slow ranks
become events.

Resumable is False while the run is not the job's own, or has overwritten a checkpoint, CheckpointFallback is True while
it continues from an older checkpoint, because newer ones were lost, StorageUnavailable is True while the storage takes
no checkpoint, HangSuspected is True while no rank makes a step, MetricRuleFired is True while a rule of
spec.metricPolicy warns, and False while no report has a rule's metric, and EndNotice and RayTested are False while the
image's Ray cannot ask for a last checkpoint, or is newer than tested. Training continues meanwhile, or has not begun
and waits for the storage. Every status change of the job carries the condition, and one event is sent when it appears.

CheckpointCommitted comes at most once a minute per job, and once for the last commit when the job ends or is suspended.
SlowRank comes once for each time that a rank becomes slow. The operator keeps in memory which commits and slow ranks
have an event. When it starts, it treats all that it finds as announced.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from railhead.api import conditions as types
from railhead.api.slow_ranks import list_spells
from railhead.api.status import RESTING, DriverWarning, JobStatus
from railhead.contract.metric_rule import METRIC_RULE, WITHOUT_RULE
from railhead.contract.report import END_NOT_ANNOUNCED, LOSSES, NO_STEPS, RAY_NOT_TESTED, STORAGE_TROUBLES
from railhead.planning.facts.reported_progress import find_last_warning
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.wanted_status import make_condition

TRUE_TYPES = (types.CHECKPOINT_FALLBACK, types.STORAGE_UNAVAILABLE, types.HANG_SUSPECTED, types.METRIC_RULE_FIRED)
TYPES = (types.RESUMABLE, *TRUE_TYPES, types.END_NOTICE, types.RAY_TESTED)
_TYPES = {
    **dict.fromkeys(LOSSES, types.CHECKPOINT_FALLBACK),
    **dict.fromkeys(STORAGE_TROUBLES, types.STORAGE_UNAVAILABLE),
    NO_STEPS: types.HANG_SUSPECTED,
    **dict.fromkeys((METRIC_RULE, *WITHOUT_RULE), types.METRIC_RULE_FIRED),
    END_NOT_ANNOUNCED: types.END_NOTICE,
    RAY_NOT_TESTED: types.RAY_TESTED,
}
# What may end without a word of the driver; any other warning stays true of a run that has succeeded.
PASSING = (types.STORAGE_UNAVAILABLE, types.HANG_SUSPECTED)
_NOT_KNOWN_YET = ("", "STARTING", "SCHEDULING")
PERIOD_SECONDS = 60
ENDS = ("Succeeded", "Failed", *RESTING)


def add_warning(job: Job, decision: Decision) -> Decision:
    """Adds the condition to the status that the decision writes, with an event if it is new, or removes it."""
    if decision.wanted is None or decision.wanted.is_guard:
        return decision
    warning = _find_warning(job)
    decision = decision.with_status(_show(job, decision.wanted.status, warning))
    if warning is None or job.status.reason_of(_type_of(warning)) == warning.reason:
        return decision
    event = Event("Warning", warning.reason, warning.message)
    return replace(decision, events=(*decision.events, event))


def _find_warning(job: Job) -> DriverWarning | None:
    """Returns the driver's warning in this attempt; the previous attempt's until fit() has started in this one."""
    # Until training runs again, nothing tells whether the cause of the earlier warning is gone.
    last = find_last_warning(job)
    if last is None and job.progress.state in _NOT_KNOWN_YET:
        before = next((each for each in job.status.conditions if each.type in TYPES), None)
        if before:
            last = DriverWarning(reason=before.reason, message=before.message)
    # A success proves that such trouble has passed, also if the driver ended before its next report.
    if last is not None and job.has_succeeded and _type_of(last) in PASSING:
        return None
    return last


def _show(job: Job, status: JobStatus, warning: DriverWarning | None) -> JobStatus:
    cleared = status.without_conditions(TYPES)
    if warning is None:
        return cleared
    type_ = _type_of(warning)
    is_true = type_ in TRUE_TYPES and warning.reason not in WITHOUT_RULE
    return cleared.with_conditions(
        make_condition(job, type_, reason=warning.reason, message=warning.message, is_true=is_true)
    )


def _type_of(warning: DriverWarning) -> str:
    return _TYPES.get(warning.reason, types.RESUMABLE)


def announce_commit(job: Job, decision: Decision) -> Decision:
    """Adds the event if a commit is due to be announced, else the time when it will be."""
    status = decision.status_after(job)
    found = status.checkpoint
    if job.announced is None or found is None or found.index <= job.announced.index:
        return decision
    if job.announced.at:
        at = job.announced.at + timedelta(seconds=PERIOD_SECONDS)
    else:
        at = job.now
    if status.phase not in ENDS and at > job.now:
        return decision.with_wake_by(at)
    message = f"Checkpoint {found.index} was committed: {found.uri[:800]}"
    announced = replace(job.announced, index=found.index, at=job.now)
    event = Event("Normal", "CheckpointCommitted", message, is_series=True)
    return replace(decision, events=(event, *decision.events), announced=announced)


def announce_slow_ranks(job: Job, decision: Decision) -> Decision:
    """Adds an event for each slow rank that has none."""
    known = decision.announced or job.announced
    ranks = job.status.progress.slow_ranks
    spells = list_spells(ranks)
    if known is None or spells <= known.slow_ranks:
        return decision
    events = tuple(
        Event(
            "Warning",
            "SlowRank",
            f"Rank {each.rank} in pod {each.pod} on node {each.node or '(not known)'} has computed at {each.score} of "
            f"the median rank's pace, or of its own best, since {each.since}",
        )
        for each in ranks or ()
        if (each.rank, each.since or "") not in known.slow_ranks
    )
    return replace(decision, events=(*decision.events, *events), announced=replace(known, slow_ranks=spells))
