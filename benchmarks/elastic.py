"""`make bench-elastic`: from the loss of a worker to training with one fewer, as a TrainJob and with Ray's own policy.

Both on this machine, in turn, next to the same idle control plane: the same elastic
ScalingConfig, the same Ray settings, the same training, and the same SIGKILL of all
processes of one Ray node. By hand Ray's own failure and scaling policies decide. Exit code
0 only if the ratio of the medians is within the bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    measure_loss,
)
from railhead.api.parsed_spec import parse_spec
from railhead.local.addresses import AddressPool
from railhead.local.install import Kubectl
from railhead.local.session import Session


def build_elastic_spec(storage: Path) -> dict[str, Any]:
    return build_spec(storage, minWorkers=1, maxWorkers=WORKERS)


def run_by_hand(pool: AddressPool, storage: Path) -> float:
    spec = parse_spec(build_elastic_spec(storage))
    with HandStarted(storage.name, pool, storage=storage, script=Script(spec, CODE, DRIVER)) as hand:
        hand.start()
        with hand.log_on_timeout():
            return measure_loss(Notes(storage / "notes"), lambda: hand.workers[-1].ip, left=WORKERS - 1)


def run_applied(session: Session, storage: Path) -> float:
    """No pod can replace the lost one: otherwise the replacement may be up before the smaller group is."""
    with applied(session, storage, build_elastic_spec(storage)) as (kubectl, name), uncordoned(kubectl):

        def find_victim() -> str:
            _each_node(kubectl, "cordon")
            return find_last_worker(kubectl, name)

        return measure_loss(Notes(storage / "notes"), find_victim, left=WORKERS - 1)


@contextmanager
def uncordoned(kubectl: Kubectl) -> Iterator[None]:
    """Uncordons the nodes at the end."""
    try:
        yield
    finally:
        _each_node(kubectl, "uncordon")


def _each_node(kubectl: Kubectl, verb: str) -> None:
    kubectl(verb, "-l", "kubernetes.io/os=linux")


def bench(rounds: int, bound: float) -> int:
    what = "from the loss of a worker to training with fewer"
    return compare_losses(what, rounds, bound, run_applied=run_applied, run_by_hand=run_by_hand)


if __name__ == "__main__":
    sys.exit(run_command("bench-elastic", bench, description=__doc__, bound=BOUND))
