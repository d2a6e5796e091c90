"""`make bench-queue-simulated`: 50 jobs of 1 to 32 GPUs on 64 GPUs for a day, with a queue, with gangs, with neither.

Prints what the GPUs did, and what preempted jobs lost. The operator is the real one; the rest is simulated.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from random import Random
from statistics import mean

from tests.model.contention.cluster import INCOMPLETE, SAVES, STARTS, TRAINS, Contention, Way
from tests.model.contention.jobs import ARRIVALS, DAY, plan_jobs

JOBS = 50
TITLES: dict[Way, str] = {"none": "neither", "gang": "gangs", "queue": "a queue"}
COLUMNS = (
    "seed",
    "with",
    "jobs done",
    "training",
    "incomplete",
    "longest wait, s",
    "starting",
    "ending",
    "preempted groups",
    "training lost per group, s",
)


def simulate(way: Way, *, seed: int, jobs: int = JOBS, seconds: float = DAY, span: float = ARRIVALS) -> Contention:
    """Returns the cluster at the end of `seconds`; the jobs arrive within the first `span` seconds."""
    cluster = Contention(seed, way=way)
    cluster.submit(plan_jobs(jobs, span=span, random=Random(seed)))
    try:
        cluster.run(seconds)
    finally:
        cluster.close()
    return cluster


def write_row(way: Way, seed: int, cluster: Contention) -> str:
    """Returns a row of the table; by COLUMNS, with times of GPUs in GPU-hours."""
    hours = {doing: f"{cluster.spent[doing] / 3600:.1f}" for doing in (TRAINS, INCOMPLETE, STARTS, SAVES)}
    losses = [loss.seconds for loss in cluster.losses]
    lost = f"{mean(losses):.1f}, at most {max(losses):.1f}" if losses else "-"
    cells: Sequence[object] = (
        seed,
        TITLES[way],
        len(cluster.ended_at),
        hours[TRAINS],
        hours[INCOMPLETE],
        f"{cluster.longest:.0f}",
        hours[STARTS],
        hours[SAVES],
        len(losses),
        lost,
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-queue-simulated", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of days (default: %(default)s)")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    logging.disable(logging.WARNING)  # the operator's, of rejected pods
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for seed in range(1, options.seeds + 1):
        for way in TITLES:
            print(write_row(way, seed, simulate(way, seed=seed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
