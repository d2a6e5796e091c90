"""Phase and conditions of a live attempt: Pending, Starting, Running, Restarting.

A start within `QUICK_START` costs no write for the number of ready pods. A slower one shows it each
time the number of missing pods has halved, so that a gang of 512 pods costs ten writes.
"""

from __future__ import annotations

from datetime import timedelta

from railhead.api import conditions as types
from railhead.api.conditions import Condition
from railhead.api.scaling import START_WAIT_SECONDS
from railhead.api.status import HeadStatus, JobStatus, Phase, WorkersStatus, replace_status
from railhead.contract.times import parse_time
from railhead.planning.facts.admission import explain_held_pod
from railhead.planning.facts.avoided_nodes import explain_avoided, explain_used_again
from railhead.planning.facts.deadlines import report_due
from railhead.planning.facts.reasons import CANNOT_START, GATED, HELD_BY_KUEUE, REPORTS_MISSING, THAT_PASS
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.pod_view import PodView, Problem
from railhead.planning.wanted_status import (
    WantedStatus,
    await_again,
    make_condition,
    set_not_running,
    set_standing_conditions,
)

QUICK_START = timedelta(seconds=15)
# Up to this many worker pods, each one counts.
COUNTED_EXACTLY = 10


def show_progress(job: Job) -> Decision:
    """Reports the state of the live attempt; there is nothing else to do."""
    # An attempt that was complete once is not pending any more: a pod that it has lost since had its decision before
    # this one.
    if job.were_all_up or job.are_enough_up:
        if job.is_training:
            return _training(job)
        return _starting(job)
    return _pending(job)


def _pending(job: Job) -> Decision:
    """Shows why not all pods are up, and how many are."""
    found = job.startup_problem
    if found is None:
        return _show_ready(job, _show_that_problem_is_past(job))
    pod, problem = found
    due = pod.created_at and pod.created_at + QUICK_START
    # A gate is normal for the first seconds of a pod with a queue; reporting it would write each such job's status once
    # more.
    if problem.reason in GATED and due is not None and due > job.now:
        # A queue removes its gates soon.
        return _show_ready(job, Decision(wake_at=due))
    return _show_ready(job, _show_problem(job, pod, problem))


def _show_ready(job: Job, decision: Decision) -> Decision:
    """Adds the number of ready worker pods, if the decision writes anyway or the number is news."""
    known = job.status.workers
    if job.workers_up == known.ready:
        return decision
    if decision.wanted is None:
        since = parse_time(job.status.waiting.since) if job.status.waiting else None
        if since is None or not _is_ready_news(job):
            return decision
        if since + QUICK_START > job.now:
            return decision.with_wake_by(since + QUICK_START)
    workers = WorkersStatus(desired=job.desired_workers, ready=job.workers_up, joined=known.joined)
    return decision.with_status(replace_status(decision.status_after(job), workers=workers))


def _is_ready_news(job: Job) -> bool:
    """Returns whether the number of missing pods has halved or doubled."""
    missing = job.desired_workers - job.workers_up
    missed = job.desired_workers - job.status.workers.ready
    # Each halving is news, so the writes grow with the logarithm of the gang.
    return job.desired_workers <= COUNTED_EXACTLY or 2 * missing <= missed or missing >= 2 * missed


def _show_problem(job: Job, pod: PodView, problem: Problem) -> Decision:
    if job.status.reason_of(types.RECONCILING) == problem.reason:
        # The message may change with every retry; one write per reason is enough.
        return Decision()
    why = problem.message[:800]
    if problem.reason == HELD_BY_KUEUE:
        why = explain_held_pod(job, problem.message)
    message = f"Pod {pod.name} {CANNOT_START}: {why}{explain_avoided(job, pod)}"
    status = set_not_running(job, types.RECONCILING, reason=problem.reason, message=message)
    event = Event("Warning", problem.reason, message, is_series=True)
    return Decision(wanted=WantedStatus(replace_status(status, phase=job.status.phase or "Pending")), events=(event,))


def _show_that_problem_is_past(job: Job) -> Decision:
    """Applies to a pod that was scheduled, or created after all; other pods show it by coming up."""
    if job.status.reason_of(types.RECONCILING) not in THAT_PASS:
        return Decision()
    phase: Phase = job.status.phase or "Pending"
    message = f"All pods of attempt {job.attempt} are created and starting{explain_used_again(job)}"
    status = set_not_running(job, types.RECONCILING, reason=phase, message=message)
    return Decision(wanted=WantedStatus(replace_status(status, phase=phase)))


def _count_pods(job: Job, status: JobStatus, *, joined: int) -> JobStatus:
    head = job.head
    desired = job.desired_workers
    if job.is_elastic:
        ready = job.workers_up
    else:
        ready = desired
    return replace_status(
        status,
        head=HeadStatus(pod=head.name, node=head.node) if head else job.status.head,
        workers=WorkersStatus(desired=desired, ready=ready, joined=joined),
    )


def _starting(job: Job) -> Decision:
    """Shows that enough pods are up, and Ray and the worker group are starting (again)."""
    was_running = job.status.phase == "Running"
    again = was_running or job.is_restart or job.status.worker_losses is not None
    if was_running and job.status.progress.state in ("", "STARTING", "SCHEDULING", "ERRORED"):
        # The driver is about to end or its report is stale; the pods will show which.
        return Decision()
    phase: Phase = "Restarting" if again else "Starting"
    reason: str = phase
    message = "The worker group is restarting" if again else _describe_start(job)
    due = report_due(job)
    if due is not None and due <= job.now:
        reason = REPORTS_MISSING
        message = _describe_missing_report(job)
        due = None
    status = replace_status(set_not_running(job, types.RECONCILING, reason=reason, message=message), phase=phase)
    if was_running:
        status = await_again(job, status)
    # Once, and not in each pass while the reports stay away.
    is_news = reason == REPORTS_MISSING != job.status.reason_of(types.RECONCILING)
    events: tuple[Event, ...] = ()
    if is_news:
        events = (Event("Warning", REPORTS_MISSING, message),)
    joined = job.progress.joined if job.is_elastic else job.status.workers.joined
    return Decision(
        wanted=WantedStatus(_count_pods(job, status, joined=joined)),
        events=events,
        wake_at=due,
    )


def _describe_missing_report(job: Job) -> str:
    head = job.head.place if job.head else ""
    return (
        f"All pods are up, and no report of attempt {job.attempt} has arrived from head pod {head}. The attempt may "
        "train, so no deadline for its start ends it. The pod's log says what keeps the driver from reporting: a "
        "NetworkPolicy, a certificate that is not the operator's, or a label that gives the job to another operator"
    )


def _describe_start(job: Job) -> str:
    if job.are_all_up:
        return "All pods are up; Ray and the worker group are starting"
    wait = job.spec.scaling.start_wait_seconds
    return (
        f"{job.workers_up} of {job.desired_workers} worker pods are up; training starts when all are, "
        f"or after {START_WAIT_SECONDS if wait is None else wait} s with at least {job.least_workers}"
    )


def _training(job: Job) -> Decision:
    joined = job.progress.joined if job.is_elastic else job.desired_workers
    if job.is_elastic:
        pods = f"{job.workers_up} of {job.desired_workers}"
    else:
        pods = f"{job.desired_workers}"
    message = f"Training runs on {pods} worker pods (attempt {job.attempt})"
    running = make_condition(job, types.RUNNING, reason="Training", message=message)
    status = set_standing_conditions(job, running, *_wait_for_workers(job))
    status = replace_status(status, phase="Running", waiting=None)
    is_news = job.status.phase != "Running"
    return Decision(
        wanted=WantedStatus(_count_pods(job, status, joined=joined)),
        events=(Event("Normal", "Started", f"{message}{_describe_origin(job)}"),) if is_news else (),
    )


def _describe_origin(job: Job) -> str:
    """Returns the checkpoint that the driver has really resumed from, in the first group of an attempt."""
    resumed = job.status.resumed_from
    if resumed and resumed.uri and job.status.round == 0:
        return f", resumed from {resumed.uri[:800]}"
    return ""


def _wait_for_workers(job: Job) -> list[Condition]:
    """Returns the condition of an elastic job that trains and still waits for more pods, or for fewer."""
    if not job.is_elastic:
        return []
    resize = job.status.resize
    if resize is not None:
        leaving = job.desired_workers - resize.worker_pods
        message = f"{leaving} worker pods leave right after the next committed checkpoint"
        return [make_condition(job, types.RECONCILING, reason="Resizing", message=message)]
    missing = job.desired_workers - job.workers_up
    if missing <= 0:
        return []
    found = job.startup_problem
    why = ""
    if found:
        why = f": pod {found[0].name} {CANNOT_START}: {found[1].reason}{explain_avoided(job, found[0])}"
    if job.rejection is not None:
        why = f": {job.rejection.problem.reason}: {job.rejection.problem.message[:600]}"
    message = f"Waiting for {missing} worker pods{why}; they join right after a committed checkpoint"
    return [make_condition(job, types.RECONCILING, reason="WaitingForWorkers", message=message)]
