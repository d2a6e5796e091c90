"""`make bench-goodput`: the same training under the same schedule of losses, as a TrainJob and by hand.

Goodput is the share of the time, from `kubectl apply` or `ray start` to the end of the schedule, in which training made
steps that count: each step once, at the pace of an undisturbed group. A worker is killed, a rank raises, the head is
killed and a worker is evicted, at moments that a fixed seed chooses. By hand a node that is lost starts again at that
very moment, Ray's own failure policy decides, and a loop starts cluster and script again when the head is gone; the
script resumes from its last checkpoint. Exit code 0 only if the TrainJob's goodput is at least that by hand, times the
bound.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.by_hand import DRIVER, HandStarted, Script
from benchmarks.command import run_command, start_session
from benchmarks.loss import (
    CODE,
    WORKERS,
    applied,
    build_spec,
    find_head,
    find_last_worker,
    find_ray_start,
    kill_node,
    kill_tree,
)
from benchmarks.steps import FAIL
from benchmarks.turns import APPLIED, BY_HAND, TakesTurns
from railhead.api.parsed_spec import parse_spec
from railhead.cli.local import TimedConsole
from railhead.local.addresses import AddressPool
from railhead.local.install import Kubectl
from railhead.local.session import Session

WORKER, ERROR, HEAD, EVICTION = "a worker is killed", "a rank raises", "the head is killed", "a worker is evicted"
GAPS_SECONDS = (35.0, 50.0)
Losses = Mapping[str, Callable[[], None]]


def plan_losses(seed: int = 1) -> list[tuple[float, str]]:
    """Returns each loss with its time in seconds from the start."""
    chance = random.Random(seed)
    kinds = [WORKER, ERROR, HEAD, EVICTION]
    chance.shuffle(kinds)
    losses, at = [], 0.0
    for kind in kinds:
        at += chance.uniform(*GAPS_SECONDS)
        losses.append((at, kind))
    return losses


def play(storage: Path, losses: Losses) -> float:
    """Lets it train under the schedule; returns the goodput, 0 to 1."""
    began, schedule = time.monotonic(), plan_losses()
    for at, kind in schedule:
        time.sleep(max(began + at - time.monotonic(), 0.0))
        losses[kind]()
    end = schedule[-1][0] + GAPS_SECONDS[1]
    time.sleep(max(began + end - time.monotonic(), 0.0))
    seconds = time.monotonic() - began
    lines = (storage / "notes").read_text().split("\n")[:-1]
    return count_productive([json.loads(line) for line in lines]) / seconds


def count_productive(notes: Sequence[Mapping[str, Any]]) -> float:
    """Returns the seconds of the steps that count: each once, however often it was made."""
    same_group = [(a, b) for a, b in pairwise(notes) if a["began"] == b["began"]]
    pace: float = median(b["time"] - a["time"] for a, b in same_group)
    return len({note["step"] for note in notes}) * pace


def run_applied(session: Session, storage: Path) -> float:
    with applied(session, storage, build_spec(storage, numWorkers=WORKERS)) as (kubectl, name):
        losses = {
            WORKER: lambda: kill_node(find_last_worker(kubectl, name)),
            ERROR: (storage / FAIL).touch,
            HEAD: lambda: kill_tree(find_head(kubectl, name)),
            EVICTION: lambda: _evict(kubectl, name),
        }
        found = play(storage, losses)
        job = json.loads(kubectl("get", "trainjobs.railhead.dev", name, "-o", "json"))
        print(f"status.goodput: {json.dumps(job['status'].get('goodput'))}", flush=True)
        return found


def _evict(kubectl: Kubectl, name: str) -> None:
    """As `kubectl drain` does for a worker pod."""
    pods = json.loads(
        kubectl("get", "pods", "-l", f"railhead.dev/job-name={name},railhead.dev/role=worker", "-o", "json")
    )
    kubectl("delete", "pod", pods["items"][0]["metadata"]["name"], "--wait=false")


class Loop:
    """A Ray cluster by hand and its script, both started again when the head is gone."""

    def __init__(self, pool: AddressPool, storage: Path) -> None:
        self._pool = pool
        self._storage = storage
        spec = build_spec(storage, numWorkers=WORKERS)
        spec["run"]["name"] = "steps"  # each start continues the same run
        self._script = Script(parse_spec(spec), CODE, DRIVER)
        self._hand = self._start()

    def _start(self) -> HandStarted:
        hand = HandStarted(self._storage.name, self._pool, storage=self._storage, script=self._script)
        hand.start()
        return hand

    def end(self) -> None:
        self._hand.__exit__()

    def lose_worker(self) -> None:
        kill_node(self._hand.workers[-1].ip)
        self._hand.start_another_worker()

    def lose_head(self) -> None:
        kill_tree(find_ray_start(self._hand.head_ip))
        self.end()
        self._hand = self._start()


def run_by_hand(pool: AddressPool, storage: Path) -> float:
    loop = Loop(pool, storage)
    try:
        losses = {
            WORKER: loop.lose_worker,
            ERROR: (storage / FAIL).touch,
            HEAD: loop.lose_head,
            EVICTION: loop.lose_worker,
        }
        return play(storage, losses)
    finally:
        loop.end()


def bench(rounds: int, bound: float) -> int:
    console = TimedConsole()
    print("\n".join(f"{at:6.1f} s  {kind}" for at, kind in plan_losses()), flush=True)
    with start_session(console) as session:
        ways = {APPLIED: partial(run_applied, session), BY_HAND: partial(run_by_hand, AddressPool())}
        turns = TakesTurns(session, console, ways, unit="of the time was productive")
        turns.run_rounds(rounds)
    mine, theirs = (median(turns.seconds[way]) for way in (APPLIED, BY_HAND))
    print(f"\ngoodput, median of {rounds}: {APPLIED} {mine:.1%}, {BY_HAND} {theirs:.1%}; ratio {mine / theirs:.3f}")
    return 0 if mine >= theirs * bound else 1


if __name__ == "__main__":
    sys.exit(run_command("bench-goodput", bench, description=__doc__, bound=1.0))
