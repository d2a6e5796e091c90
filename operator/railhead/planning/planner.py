"""`plan()`: one pass over one job. The first decision that answers counts; then every amendment completes it.

Total: for any observed state it returns a plan. What is decided here is done by
`controller/executor.py` and seen again only through the watch.
"""

from __future__ import annotations

from collections.abc import Callable

from railhead.api.errors import InvalidSpec
from railhead.api.names import MANAGER
from railhead.planning.amendments.commit_events import announce_commit
from railhead.planning.amendments.create_backoff import hold_back_creates
from railhead.planning.amendments.generation import acknowledge_generation
from railhead.planning.amendments.pod_events import look_up_pod_events
from railhead.planning.amendments.wake import wake_for_limits
from railhead.planning.amendments.warning import add_warning
from railhead.planning.decisions.clean_up import decide_clean_up
from railhead.planning.decisions.deadlines import decide_active_deadline, decide_startup_deadline
from railhead.planning.decisions.finished import decide_finished
from railhead.planning.decisions.first_attempt import decide_first_attempt
from railhead.planning.decisions.invalid import decide_invalid
from railhead.planning.decisions.loss import decide_loss
from railhead.planning.decisions.next_attempt import decide_next_attempt
from railhead.planning.decisions.partial_gang import decide_partial_gang
from railhead.planning.decisions.progress import show_progress
from railhead.planning.decisions.replacement import decide_replacement
from railhead.planning.decisions.resize import decide_resize
from railhead.planning.decisions.resume import decide_resume
from railhead.planning.decisions.resume_source import decide_resume_source
from railhead.planning.decisions.stale_pods import decide_stale_pods
from railhead.planning.decisions.success import decide_success
from railhead.planning.decisions.suspend import decide_suspend
from railhead.planning.decisions.uncreated_pods import decide_uncreated_pods
from railhead.planning.job import Job
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, Plan
from railhead.planning.status_write import build_status_write

# The order is the rule; each line says why it comes before the next.
# tests/unit/planning/test_order.py has, for each adjacent pair, a job in which both answer, or why there is none.
DECISIONS: tuple[Callable[[Job], Decision | None], ...] = (
    decide_clean_up,  # takes the ended head too, which decide_finished keeps
    decide_finished,  # nothing else applies to a job that is over
    decide_active_deadline,  # the limit of the whole job holds also for one that is to rest
    decide_suspend,  # a job that is to rest needs no checkpoint to begin from
    decide_resume_source,  # nothing begins without the checkpoint that it is to begin from
    decide_resume,  # the attempt of a suspended job is over: neither its pods nor its failure count
    decide_first_attempt,  # the attempt must be known before pods are compared with it
    decide_stale_pods,  # never two heads: pods of earlier attempts end before anything else is decided
    decide_next_attempt,  # the failure of an attempt is written once; its pods say nothing new
    decide_success,  # a head that ended well is no loss
    decide_loss,  # what really happened explains more than a limit that fell due meanwhile
    decide_startup_deadline,  # the user's limit, before the operator's own patience with rejected pods
    decide_partial_gang,  # an attempt that is given up is not resized
    decide_resize,  # the number of workers must be decided before missing ones are counted
    decide_replacement,  # a lost pod is counted, and its name is not used again
    decide_uncreated_pods,  # what is not there has no progress to show
    show_progress,
)

# Each is applied to whatever was decided, in this order.
AMENDMENTS: tuple[Callable[[Job, Decision], Decision], ...] = (
    hold_back_creates,  # may put another status change in the decision's place, which the others complete
    add_warning,  # rides along with a status change
    look_up_pod_events,  # of pods for which nothing else is done
    wake_for_limits,
    acknowledge_generation,  # after the warning: it adds a change that is only for the generation
    announce_commit,  # of the checkpoint that the status will have
)


def plan(observed: Observed) -> Plan:
    """What to do now about this job."""
    if observed.is_deleting:
        return Plan()  # garbage collection does the rest
    if isinstance(observed.spec, InvalidSpec):
        decision = decide_finished(observed) or decide_invalid(observed, observed.spec)
        return _seal(observed, acknowledge_generation(observed, decision))
    if observed.spec.managed_by != MANAGER:
        return Plan()  # another controller's
    job = Job.of(observed, observed.spec)
    decision = next(decided for decide in DECISIONS if (decided := decide(job)) is not None)
    for amend in AMENDMENTS:
        decision = amend(job, decision)
    return _seal(job, decision)


def _seal(observed: Observed, decision: Decision) -> Plan:
    return Plan(
        status=build_status_write(observed, decision.status),
        creates=decision.creates,
        deletes=decision.deletes,
        removes=decision.removes,
        events=decision.events,
        last=build_status_write(observed, decision.last),
        wake_at=decision.wake_at,
        announced=decision.announced,
        look_up_events_of=decision.look_up_events_of,
    )
