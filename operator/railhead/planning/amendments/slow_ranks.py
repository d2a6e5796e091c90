"""An event for each slow rank that a driver's report names, once for each time that it becomes slow.

The operator keeps in memory which ones have an event. When it starts, it treats all that it finds as announced.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api.slow_ranks import list_spells
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event


def announce_slow_ranks(job: Job, decision: Decision) -> Decision:
    """Adds the events that are missing."""
    known, ranks = decision.announced or job.announced, job.status.progress.slow_ranks
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
