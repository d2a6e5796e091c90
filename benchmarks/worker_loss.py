"""`make bench-worker-loss`: from the SIGKILL of a worker to training again, as a TrainJob and by hand.

Both on this machine, in turn, next to the same idle control plane: the same ScalingConfig of
a fixed size, the same Ray settings, the same training, and the same SIGKILL of all
processes of one Ray node. By hand another node starts at the very moment of the loss,
and Ray's own failure policy decides. Exit code 0 only if the ratio of the medians is within
the bound.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.by_hand import DRIVER, HandStarted, Script
from benchmarks.command import run_command
from benchmarks.loss import (
    BOUND,
    CODE,
    WORKERS,
    Notes,
    applied,
    build_spec,
    compare_losses,
    find_last_worker,
    kill_node,
    measure_loss,
)
from railhead.api.parsed_spec import parse_spec
from railhead.local.addresses import AddressPool
from railhead.local.session import Session


def run_by_hand(pool: AddressPool, storage: Path) -> float:
    spec = parse_spec(build_spec(storage, numWorkers=WORKERS))
    with HandStarted(storage.name, pool, storage=storage, script=Script(spec, CODE, DRIVER)) as hand:
        hand.start()

        def lose(address: str) -> None:
            kill_node(address)
            hand.start_another_worker()

        with hand.log_on_timeout():
            return measure_loss(Notes(storage / "notes"), lambda: hand.workers[-1].ip, left=WORKERS, lose=lose)


def run_applied(session: Session, storage: Path) -> float:
    with applied(session, storage, build_spec(storage, numWorkers=WORKERS)) as (kubectl, name):
        find_victim = partial(find_last_worker, kubectl, name)
        return measure_loss(Notes(storage / "notes"), find_victim, left=WORKERS)


def bench(rounds: int, bound: float) -> int:
    what = "from the SIGKILL of a worker to training again"
    return compare_losses(what, rounds, bound, run_applied=run_applied, run_by_hand=run_by_hand)


if __name__ == "__main__":
    sys.exit(run_command("bench-worker-loss", bench, description=__doc__, bound=BOUND))
