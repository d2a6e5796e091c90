"""What holds back the pods that a decision would create: the backoff after a rejection. The condition Reconciling
reports why, what the job holds meanwhile, and when it tries again.

A rejected child is reported at once, and its create is retried after 5, 10, 20, 30, 30 ... s, or after 5, 10, 10 ... s
while other pods wait for it. Until then nothing is created for the job, whatever the pass has decided, and no restart
is counted: nothing was lost. The worker that was refused is asked for first, so that the others hold nothing while it
is refused; of a quota the whole job is asked for first.
"""

from __future__ import annotations

import re
from dataclasses import replace

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.status import replace_status
from railhead.contract.times import format_time
from railhead.json_object import Object
from railhead.planning.decisions.show_progress import show_progress
from railhead.planning.facts.backoff import REJECTED_LIMIT_SECONDS, rejected_until
from railhead.planning.facts.deadlines import give_up_due
from railhead.planning.facts.quota import explain_rejection, was_refused
from railhead.planning.facts.reasons import GIVEN_UP, QUOTA_EXCEEDED, REJECTIONS
from railhead.planning.job import Job
from railhead.planning.observed import Rejection
from railhead.planning.plan import POD, QUOTA_PROBE, Create, Decision, Event
from railhead.planning.pod_view import Problem
from railhead.planning.wanted_status import WantedStatus, changes_anything, make_guard, set_not_running
from railhead.resources.quota_probe import build_quota_probe

_REFUSED_WORKER = re.compile(r"Pod \S+-w(\d+)-\d+ was rejected: ")


def ask_for_refused_first(job: Job, decision: Decision) -> Decision:
    """Creates the worker pod that was refused last before the others: as long as it is refused, none of them holds a
    GPU. An elastic job may train without it, and a quota refuses any pod."""
    slot = _find_refused_slot(job)
    if slot is None or job.is_elastic:
        return decision
    refused = [create for create in decision.creates if create.kind == "Pod" and f"-w{slot}-" in create.name]
    others = [create for create in decision.creates if create not in refused]
    return replace(decision, creates=(*refused, *others))


def _find_refused_slot(job: Job) -> str | None:
    """Returns the slot of the worker pod that was refused in this attempt, or for which the one before was given up."""
    problem = _find_given_up(job)
    if job.rejection is not None:
        problem = job.rejection.problem
    # A quota counts all pods alike, so asking for this one first would prove nothing.
    if problem is None or problem.reason not in REJECTIONS or problem.reason == QUOTA_EXCEEDED:
        return None
    found = _REFUSED_WORKER.match(problem.message)
    if found is not None:
        return found[1]
    return None


def _find_given_up(job: Job) -> Problem | None:
    failure = job.status.failure
    if failure is None or failure.attempt < job.attempt - 1:
        return None
    return Problem(failure.reason, failure.message)


def hold_back_creates(job: Job, decision: Decision) -> Decision:
    """Drops the creates of the decision during the backoff after the API server's last rejection."""
    rejection = job.rejection
    if rejection is None or not decision.creates:
        return decision
    due = give_up_due(job)
    # Tried more often while other pods are held, since each second of theirs costs GPUs.
    at = rejected_until(job, rejection, is_held=due is not None)
    if at <= job.now:
        return decision
    if decision.wanted is not None and not decision.wanted.is_guard and changes_anything(job, decision.wanted):
        # The next pass reports why.
        held = replace(decision, creates=())
    else:
        held = _report_hold(job, decision, rejection)
    return held.with_wake_by(at).with_wake_by(due)


def _report_hold(job: Job, decision: Decision, rejection: Rejection) -> Decision:
    """Reports why nothing is created, and keeps the decision's deletes with what must hold for them.

    An elastic job with enough workers keeps training.
    """
    if job.is_elastic and job.are_enough_up:
        held = show_progress(job)
    else:
        held = _report(job, explain_rejection(job, rejection.problem))
    if not decision.deletes:
        return held
    # Without the compare, a pass with an outdated view would delete pods that are in use.
    required = decision.wanted.requires if decision.wanted is not None else frozenset()
    wanted = held.wanted
    if wanted is None or not changes_anything(job, wanted):
        wanted = make_guard(job)
    return replace(held, wanted=wanted.requiring(*required), deletes=decision.deletes)


def _report(job: Job, problem: Problem) -> Decision:
    """Reports a problem once, and again when it changes."""
    reason = problem.reason
    message = problem.message + _describe_hold(job)
    # An unchanged report writes nothing, however often the API server rejects the pod.
    if any((x.type, x.reason, x.message) == (types.RECONCILING, reason, message) for x in job.status.conditions):
        return Decision()
    status = set_not_running(job, types.RECONCILING, reason=reason, message=message)
    news = Event("Warning", reason, message, is_series=True)
    return Decision(wanted=WantedStatus(replace_status(status, phase=job.status.phase or "Pending")), events=(news,))


def _describe_hold(job: Job) -> str:
    """Returns what pods the job holds meanwhile, and when it tries again; empty for a job that wants no pods yet."""
    if job.is_at_rest:
        return ""
    due = give_up_due(job)
    if due is not None:
        return f"; the pods that exist wait for it until {format_time(due)}, and are then released"
    if job.acting_pods:
        return ""
    given_up = _find_given_up(job)
    why = "the job holds no pods meanwhile"
    if given_up is not None and given_up.reason in GIVEN_UP:
        why = f"the pods of attempt {job.attempt - 1} were released"
    return f"; {why}, and the next try follows within {REJECTED_LIMIT_SECONDS} s"


def probe_quota(job: Job, decision: Decision) -> Decision:
    """Asks for the quota of the whole job before it makes any pod, once a quota has refused one.

    Otherwise each attempt would make as many pods as fit, and hold them for nothing until it releases them.
    """
    pods = [each for each in decision.creates if isinstance(each, Create) and each.policy is POD]
    head_name = names.head_name(job.name, job.uid, decision.status_after(job).attempt)
    head = next((each for each in pods if each.name == head_name), None)
    worker = next((each for each in pods if each is not head), None)
    if head is None or worker is None or not was_refused(job):
        return decision

    def build() -> Object:
        return build_quota_probe(dict(head.build()), dict(worker.build()), workers=job.least_workers)

    return replace(decision, creates=(*decision.creates, Create(QUOTA_PROBE, head.name, build)))
