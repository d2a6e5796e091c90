"""How often a run loses what it has trained since its last checkpoint: by its own losses, until it has many by those of
its namespace's jobs, and until these have many by a rate that was published. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters (arXiv 2410.21680): jobs on
# 1,024 GPUs lose one every 7.9 hours.
PUBLISHED_GPU_SECONDS = 1024 * 7.9 * 3600
# Assumed at most: few GPUs fail rarely, but nodes are drained, and processes are killed.
FEW_GPUS_SECONDS = 24 * 3600.0
# Losses, from which a rate is computed.
ENOUGH = 3


class Basis(Enum):
    """What a rate of losses was taken from.

    Attributes:
        SEEN: the jobs' losses.
        PROVEN: so many hours with hardly a loss that they come more rarely than the published rate; how much more is
            not known.
        PUBLISHED: other clusters, since few losses are known in this one.
    """

    SEEN = "seen"
    PROVEN = "proven"
    PUBLISHED = "published"


@dataclass(frozen=True)
class GpuRate:
    """How often one GPU is lost.

    Attributes:
        gpu_seconds: seconds times GPUs between two losses.
        basis: what this was taken from.
    """

    gpu_seconds: float
    basis: Basis


@dataclass(frozen=True)
class JobLosses:
    """The losses of some jobs of a namespace that came from outside.

    Attributes:
        number: of losses.
        gpu_seconds: seconds times GPUs in which they happened.
    """

    number: int = 0
    gpu_seconds: float = 0

    def add(self, other: JobLosses, *, times: int = 1) -> JobLosses:
        """Returns the sum; `times`: -1 takes the others away."""
        return JobLosses(self.number + times * other.number, self.gpu_seconds + times * other.gpu_seconds)

    def find_rate(self) -> GpuRate:
        """Returns the rate by these losses if they are enough, else the published one."""
        if self.number >= ENOUGH and self.gpu_seconds > 0:
            return GpuRate(self.gpu_seconds / self.number, Basis.SEEN)
        proven = self.gpu_seconds / (max(self.number, 0) + 1)
        if proven > PUBLISHED_GPU_SECONDS:
            return GpuRate(proven, Basis.PROVEN)
        return GpuRate(PUBLISHED_GPU_SECONDS, Basis.PUBLISHED)


NO_JOB_LOSSES = JobLosses()


@dataclass(frozen=True)
class LossHistory:
    """The losses of a run so far.

    Attributes:
        number: of losses that came from outside; those by the user's code say nothing of the next one.
        seconds: for how long the run has trained in all, as far as it is counted.
        others: the losses of the other jobs in the namespace.
    """

    number: int = 0
    seconds: float = 0.0
    others: JobLosses = NO_JOB_LOSSES

    def expect_seconds(self, ranks: int) -> float:
        """Returns after how many seconds of training this number of ranks is expected to lose one.

        What is assumed before, by the losses of others, counts as much as one loss, so it decides at first and hardly
        matters after ten.
        """
        assumed = min(FEW_GPUS_SECONDS, self.others.find_rate().gpu_seconds / ranks)
        return (assumed + max(self.seconds, 0.0)) / (1 + max(self.number, 0))


NO_LOSSES = LossHistory()
