"""Whether other times between two checkpoints would cost the job less, by what was measured in this run. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railhead.api.goodput import GoodputStatus
from railhead.api.status import JobStatus
from railhead.client.cluster.job_rows import count_gpus
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.save_interval import SaveCosts
from railhead.contract.loss_rate import ENOUGH, Basis, JobLosses
from railhead.contract.times import format_duration
from railhead.json_object import part

LEAST_GAIN = 0.005  # of the job's time
# Before their mean interval says something. A job that has trained for LONG_SECONDS is judged with fewer.
LEAST_COMMITS = 3
LONG_SECONDS = 3600
# Used until the job has lost time to a restart: the slowest start in docs/internals/benchmarks.md, of a new attempt.
USUAL_DOWNTIME = 24.3


@dataclass(frozen=True)
class LossRate:
    """How often the job loses what it has trained since a checkpoint.

    Attributes:
        mtbf: mean seconds of training between two losses.
        source: says where the number comes from.
    """

    mtbf: float
    source: str


def find_rate(status: JobStatus, gpus: int, namespace: JobLosses) -> LossRate | None:
    """Returns the rate by the job's own losses, else by those of the namespace's jobs, else the published one; None for
    a job without GPUs that has hardly lost anything."""
    spent = status.goodput or GoodputStatus()
    own = spent.losses
    if own.number >= ENOUGH:
        return LossRate(own.seconds / own.number, f"{own.number} losses in this run")
    if not gpus:
        return None
    found = namespace.find_rate()
    seen = f"{namespace.number} in {_hours(namespace.gpu_seconds)} GPU-hours of this namespace's jobs"
    sources = {
        Basis.SEEN: seen,
        Basis.PROVEN: f"at most: {seen}",
        Basis.PUBLISHED: f"Meta's published rate for {gpus} GPUs, since few losses are known here",
    }
    return LossRate(found.gpu_seconds / gpus, sources[found.basis])


def find_save_advice(snapshot: JobSnapshot) -> Iterator[tuple[str, str]]:
    """Yields a reason of the table `slow` and its numbers, if another interval would gain enough."""
    status = snapshot.status
    spent = status.goodput
    commits = status.newest_index + 1
    if spent is None or commits < 1 or spent.productive_seconds < 1:
        return
    if commits < LEAST_COMMITS and spent.productive_seconds < LONG_SECONDS:
        return
    rate = find_rate(status, _count_gpus(snapshot), snapshot.namespace_losses)
    if rate is None or rate.mtbf <= 0:
        return
    costs = SaveCosts(spent.lost_seconds.checkpointing / commits, _find_downtime(spent), rate.mtbf)
    interval = spent.productive_seconds / commits
    best = costs.best_interval
    now = costs.share_lost(interval)
    least = costs.share_lost(best)
    if now - least < LEAST_GAIN:
        return
    reason = "CheckpointsTooOften"
    if best < interval:
        reason = "CheckpointsTooRare"
    yield (
        reason,
        (
            f"So far the job commits a checkpoint every {_describe(interval)} of training and waits "
            f"{costs.stall:.2g} s for each. With a loss every {_describe(rate.mtbf)} ({rate.source}) and "
            f"{_describe(costs.downtime)} until training runs again, this costs {now:.1%} of the time; "
            f"a checkpoint every {_describe(best)} would cost {least:.1%}."
        ),
    )


def describe_risk(snapshot: JobSnapshot) -> str:
    """Returns what a job without any checkpoint can lose; "" if it has no GPUs, or nothing is known of its time."""
    spent = snapshot.status.goodput
    gpus = _count_gpus(snapshot)
    rate = find_rate(snapshot.status, gpus, snapshot.namespace_losses)
    if spent is None or rate is None or not spent.productive_seconds or not gpus:
        return ""
    trained = spent.productive_seconds
    return (
        f"The next loss takes back {_describe(trained)} of training on {gpus} GPUs, which are "
        f"{_hours(trained * gpus)} GPU-hours. One comes every {_describe(rate.mtbf)} on average ({rate.source})."
    )


def _count_gpus(snapshot: JobSnapshot) -> int:
    return count_gpus(part(snapshot.spec, "scaling"), snapshot.status.workers.desired)


def _find_downtime(spent: GoodputStatus) -> float:
    """Returns the mean time from a loss of any kind until training runs again; pods are also pending at the start."""
    number = sum(spent.interruptions.values())
    if not number:
        return USUAL_DOWNTIME
    return spent.lost_seconds.restoring / number + spent.lost_seconds.pods_pending / (number + 1)


def _describe(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds:.2g} s"
    return format_duration(round(seconds))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.0f}"
