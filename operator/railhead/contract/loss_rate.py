"""How often a run loses what it has trained since its last checkpoint: by its own losses, and until it has many by a
rate that was published. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

# Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters (arXiv 2410.21680): jobs on
# 1,024 GPUs lose one every 7.9 hours.
PUBLISHED_GPU_SECONDS = 1024 * 7.9 * 3600
# Assumed at most: few GPUs fail rarely, but nodes are drained, and processes are killed.
FEW_GPUS_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class LossHistory:
    """The losses of a run so far.

    Attributes:
        number: of losses that came from outside; those by the user's code say nothing of the next one.
        seconds: for how long the run has trained in all, as far as it is counted.
    """

    number: int = 0
    seconds: float = 0.0

    def expect_seconds(self, ranks: int) -> float:
        """Returns after how many seconds of training this number of ranks is expected to lose one.

        What is assumed of any run counts as much as one loss, so it decides at first and hardly matters after ten.
        """
        assumed = min(FEW_GPUS_SECONDS, PUBLISHED_GPU_SECONDS / ranks)
        return (assumed + max(self.seconds, 0.0)) / (1 + max(self.number, 0))


NO_LOSSES = LossHistory()
