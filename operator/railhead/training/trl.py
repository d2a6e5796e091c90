"""For TRL: its trainers are `transformers.Trainer`s, so they take the same callback.

Pass it as `SFTTrainer(callbacks=[RayTrainReportCallback(), TrainJobCallback()])`.
"""

from __future__ import annotations

from railhead.training.transformers import TrainJobCallback

__all__ = ["TrainJobCallback"]
