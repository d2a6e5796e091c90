"""`plan()`: one pass over one job. The first decision that applies wins; then every amendment completes it.

Total: it returns a plan for any observed state. `controller/executor.py` executes the plan;
its effects come back only through the watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from railhead.api import conditions as types
from railhead.api.names import MANAGER
from railhead.api.parsed_spec import InvalidSpec
from railhead.planning.amendments.announcements import add_warning, announce_commit, announce_slow_ranks
from railhead.planning.amendments.attempt_list import list_attempts
from railhead.planning.amendments.avoided_node_list import list_avoided_nodes
from railhead.planning.amendments.count_time import count_running_time, count_time
from railhead.planning.amendments.creates import ask_for_refused_first, hold_back_creates, probe_quota
from railhead.planning.amendments.denied_deletes import hold_back_deletes
from railhead.planning.amendments.generation import acknowledge_generation
from railhead.planning.amendments.next_look import look_up_pod_events, wake_for_limits
from railhead.planning.amendments.obstacle_conditions import report_obstacles
from railhead.planning.amendments.stuck_pods import list_stuck_pods
from railhead.planning.amendments.workload import end_workload, keep_workload
from railhead.planning.decisions.continued_run import decide_restored, decide_run
from railhead.planning.decisions.finished import decide_clean_up, decide_deletion, decide_finished, decide_success
from railhead.planning.decisions.loss import (
    decide_active_deadline,
    decide_loss,
    decide_partial_gang,
    decide_partial_start,
    decide_startup_deadline,
)
from railhead.planning.decisions.next_attempt import (
    decide_first_attempt,
    decide_next_attempt,
    decide_restarts_in_place,
    decide_resume_source,
)
from railhead.planning.decisions.show_progress import show_progress
from railhead.planning.decisions.suspend import decide_queue, decide_resume, decide_suspend
from railhead.planning.decisions.workers import (
    decide_outdated_pods,
    decide_replacement,
    decide_resize,
    decide_stale_pods,
    decide_uncreated_pods,
    decide_unstarted_pods,
)
from railhead.planning.facts.admission import add_queue_obstacle
from railhead.planning.job import Job
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, Effects, Event, Plan
from railhead.planning.wanted_status import (
    WantedStatus,
    build_status_write,
    changes_anything,
    make_condition,
    set_standing_conditions,
)

# The order is the rule; each line says why it comes before the next.
# tests/unit/planning/test_planner.py has, for each adjacent pair, a job in which both apply, or why there is none.
DECISIONS: tuple[Callable[[Job], Decision | None], ...] = (
    decide_deletion,  # its children go with it, so there is nothing left to clean up
    decide_clean_up,  # also deletes the terminated head, which decide_finished keeps
    decide_finished,  # nothing else applies to a finished job
    decide_restored,  # the rest of a restored status is about another TrainJob's pods
    decide_restarts_in_place,  # what the attempt has spent is counted before anything ends it
    decide_suspend,  # a deleted job, or one that is to be suspended, needs no checkpoint to start from
    decide_resume_source,  # a job that waits for another job's checkpoint asks for no quota
    decide_run,  # nor does one that waits for another job's run
    decide_queue,  # no deadline ends a job that must have no pods, and nothing starts before its queue admits it
    decide_active_deadline,  # a job that has no time left does not begin an attempt
    decide_resume,  # the attempt of a suspended job is over, however it ended: the next one needs no delay
    decide_first_attempt,  # the attempt must be known before pods are compared with it
    decide_stale_pods,  # never two heads: pods of earlier attempts end before anything else is decided
    decide_next_attempt,  # the failure of an attempt is recorded once; its pods add nothing
    decide_success,  # a head that succeeded is not a loss
    decide_loss,  # the actual cause explains more than a deadline that passed meanwhile
    decide_startup_deadline,  # the user's deadline, before the operator's own patience with rejected pods
    decide_partial_gang,  # an attempt that is given up is not resized
    decide_resize,  # the number of workers must be decided before missing ones are counted
    decide_replacement,  # a lost pod is counted, and its name is not reused
    decide_unstarted_pods,  # adds nodes to those that are avoided, and a pod that avoids too many follows
    decide_outdated_pods,  # raises the round, which the names of missing pods contain
    decide_uncreated_pods,  # a pod that does not exist yet has not waited for a node
    decide_partial_start,  # an attempt that is given up has no progress to show
    show_progress,
)

# All of them apply to every decision, in this order.
FIRST_AMENDMENTS: tuple[Callable[[Job, Decision], Decision], ...] = (
    keep_workload,  # what it removes and creates may be held back like anything else
    hold_back_deletes,  # before anything else reads what the pass deletes
)
# These apply to every decision that keeps the job: a write of the status would change the version that a delete names.
AMENDMENTS: tuple[Callable[[Job, Decision], Decision], ...] = (
    ask_for_refused_first,  # only orders what the others may hold back
    hold_back_creates,  # may replace the decision by another status change, which the others complete
    probe_quota,  # for the creates that are left
    add_warning,  # joins a status change
    count_running_time,  # joins a status change
    look_up_pod_events,  # for pods without any other action
    wake_for_limits,
    list_avoided_nodes,  # joins a status change, or adds its own
    list_stuck_pods,  # joins a status change, or adds its own
    report_obstacles,  # joins a status change, or adds its own
    acknowledge_generation,  # after the warning: may add a change just for the generation
    list_attempts,  # joins a status change, whichever added it
    count_time,  # likewise
    announce_commit,  # for the checkpoint that the status will have
    announce_slow_ranks,  # adds to what that one announces
)


def plan(observed: Observed) -> Plan:
    """Returns the actions for this job now."""
    # A spec that was stored under another schema says nothing that can be relied on: pods that run are left alone, and
    # only what needs no spec is done.
    if isinstance(observed.spec, InvalidSpec):
        decision = decide_finished(observed) or _decide_invalid(observed, observed.spec)
        decision = hold_back_deletes(observed, end_workload(observed, decision))
        decision = report_obstacles(observed, list_stuck_pods(observed, decision))
        return _seal(observed, acknowledge_generation(observed, decision))
    if observed.spec.managed_by != MANAGER:
        # Managed by another controller.
        return Plan()
    job = add_queue_obstacle(observed, observed.spec)
    decision = _decide(job)
    for amend in FIRST_AMENDMENTS:
        decision = amend(job, decision)
    # The delete names the resourceVersion of the job. Any write of the status would change it, and the delete would
    # fail in each pass.
    if decision.delete_job is not None:
        return _seal(job, decision)
    for amend in AMENDMENTS:
        decision = amend(job, decision)
    return _seal(job, decision)


def _decide(job: Job) -> Decision:
    """Returns the first decision that applies. The last one of the list always does."""
    candidates = (decide(job) for decide in DECISIONS)
    return next(decision for decision in candidates if decision is not None)


def _seal(observed: Observed, decision: Decision) -> Plan:
    """Turns the wanted statuses into writes; one that the job has already is left out."""
    # Only the fields of Effects: a Decision has two wanted statuses besides, which become writes here.
    effects = {field.name: getattr(decision, field.name) for field in fields(Effects)}
    return Plan(
        **effects,
        status=build_status_write(observed, decision.wanted),
        last=build_status_write(observed, decision.last),
    )


def _decide_invalid(observed: Observed, error: InvalidSpec) -> Decision:
    """Reports a spec that was stored under another schema in the status, and touches nothing else."""
    wanted = WantedStatus(
        set_standing_conditions(
            observed, make_condition(observed, types.STALLED, reason="InvalidSpec", message=str(error))
        )
    )
    is_news = changes_anything(observed, wanted)
    return Decision(wanted=wanted, events=(Event("Warning", "InvalidSpec", str(error)),) if is_news else ())
