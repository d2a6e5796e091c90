"""spec.resumeFrom: what the first attempt starts from when the run has no checkpoint yet."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from railhead.api.base import Model, Name, rules
from railhead.api.run import LOCATION, NO_CREDENTIALS, NO_DOTS

CheckpointLocation = Annotated[
    str,
    Field(min_length=2, max_length=2048, pattern=LOCATION, json_schema_extra=rules(NO_CREDENTIALS, NO_DOTS)),
]


class ResumeFrom(Model):
    """Another TrainJob, or a checkpoint."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("", "has(self.trainJob) != has(self.checkpoint)", "exactly one of trainJob and checkpoint must be set"),
            (".best", "!self.best || has(self.trainJob)", "needs trainJob"),
        )
    )
    train_job: Name | None = Field(
        default=None,
        description="Name of a finished TrainJob of the same namespace. Its newest checkpoint is used.",
    )
    checkpoint: CheckpointLocation | None = Field(
        default=None, description="Path or URI of a checkpoint's folder, which all pods can read."
    )
    best: bool = Field(default=False, description="Uses status.bestCheckpoint of trainJob instead of the newest.")
