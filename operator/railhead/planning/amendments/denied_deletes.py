"""Holds back the deletes that the API server denies.

A denied delete holds up no other delete, and is tried again after 1, 2, 4, 8, 15, 15 ... s, also when the status names
the object no more; so is a denied change of the Workload.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.observed import Observed, denied_until
from railhead.planning.plan import Decision
from railhead.planning.wanted_status import changes_anything, make_guard


def hold_back_deletes(observed: Observed, decision: Decision) -> Decision:
    """Drops the deletes and the change that were denied a moment ago, and what is only done once all deletes have
    succeeded; and wakes the job when the next of them is to be tried again."""
    decision = _ask_again(observed, decision)
    denied = observed.denied
    if not denied:
        return decision
    delete_job = decision.delete_job
    if observed.name in denied:
        delete_job = None
    workload = decision.workload
    if workload is not None and workload.name in denied:
        workload = None
    removes = tuple(each for each in decision.removes if each.name not in denied)
    last = decision.last
    if removes != decision.removes:
        # The last status records that all of them are gone, so it waits.
        last = None
    held = replace(
        decision,
        deletes=tuple(each for each in decision.deletes if each.name not in denied),
        removes=removes,
        forgotten=tuple(each for each in decision.forgotten if each.name not in denied),
        delete_job=delete_job,
        last=last,
        workload=workload,
    )
    retries = [denied_until(each, observed.now) for each in observed.denials]
    return held.with_wake_by(min(at for at in retries if at > observed.now))


def _ask_again(observed: Observed, decision: Decision) -> Decision:
    """Adds the removals that were denied and that no decision repeats, since the status has forgotten the names."""
    # What is created again under the same name must not be removed any more.
    known = {each.name for each in (*decision.removes, *decision.forgotten, *decision.creates)} | observed.denied
    denied = (each.remove for each in observed.denials if each.remove is not None and each.name not in known)
    # A Workload is watched, and may be wanted again.
    again = tuple(each for each in denied if each.kind != "Workload")
    if not again:
        return decision
    wanted = decision.wanted
    if wanted is None or not changes_anything(observed, wanted):
        # Without the compare, a pass with an outdated view would remove what is in use again.
        wanted = make_guard(observed)
    return replace(decision, removes=(*decision.removes, *again), wanted=wanted)
