"""What a job reads and writes: spec.run, spec.resumeFrom and spec.datasets.

spec.run is Ray Train's RunConfig, CheckpointConfig and FailureConfig, and the storage volume. spec.resumeFrom is for
the first attempt, when the run has no checkpoint yet. spec.datasets are the Ray Data datasets of the workers, by name.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.api.cel import in_millis
from railhead.api.locations import CheckpointLocation, Location
from railhead.api.model import Function, Model, Name, checked, exactly_one, optional

# Folders of the pods' own volumes and of the image's system.
OWN_FOLDERS = "bin|boot|dev|etc|lib|lib64|opt/+railhead|proc|run|sbin|sys|tmp/+railhead|usr|var/+run"

HAS_TASKS = "has(self.datasets) || has(self.trainer.validationFunction)"  # in addition to the workers
_PER_WORKER = "self.scaling.resourcesPerWorker"
SPLIT_OF_BUILD = (
    ".datasets",
    "!has(self.trainer.build) || !has(self.datasets) || self.datasets.all(n, self.datasets[n].split)",
    "split requires trainFunc; with build pass a DataConfig to the trainer",
)


class ClaimVolume(Model):
    """A PersistentVolumeClaim of the same namespace."""

    claim_name: Name = Field(
        description="Name of the claim. It is mounted read-write in every pod, so it should be ReadWriteMany."
    )


class StorageVolume(Model):
    """The volume behind storagePath."""

    persistent_volume_claim: ClaimVolume = Field(description="The claim that is mounted at storagePath in every pod.")


class CheckpointConfig(Model):
    """Ray Train's CheckpointConfig."""

    model_config = checked(
        (
            ".scoreOrder",
            "!has(self.scoreOrder) || has(self.scoreAttribute)",
            "needs scoreAttribute, the metric to compare",
        )
    )
    num_to_keep: int | None = optional(
        "How many checkpoints to keep; Ray is configured with at least 2. Default: all.", ge=1, le=10000
    )
    score_attribute: str | None = optional("Metric by which checkpoints are ranked.", min_length=1, max_length=128)
    score_order: Literal["min", "max"] | None = optional("Whether a low or a high score is better.")


class FailureConfig(Model):
    """Ray Train's FailureConfig."""

    max_failures: int | None = optional(
        "How often, at most, an attempt restarts its worker group in the same pods after a failure of the "
        "application. Default: as long as backoffLimit allows it, and not after the same failure twice in a row.",
        ge=0,
        le=10000,
    )


class ProgressMetrics(Model):
    """Metrics of rank 0's reports that say how far training is."""

    metric: str = Field(
        min_length=1,
        max_length=128,
        description="Metric with the epochs or steps so far. Whole numbers count from 0, unless the run's n-th report "
        "has n.",
    )
    total_metric: str = Field(
        min_length=1, max_length=128, description="Metric, or key of trainer.trainLoopConfig, with all of them."
    )


class Run(Model):
    """Name, storage and policies of the run."""

    model_config = checked(
        (
            ".storageVolume",
            "!has(self.storageVolume) || self.storagePath.startsWith('/')",
            "storagePath must be an absolute path when a volume is mounted there; change it or remove the volume",
        ),
        (
            ".storagePath",
            f"!has(self.storageVolume) || !self.storagePath.matches('^/({OWN_FOLDERS})(/|$)')",
            "a volume cannot be mounted over a system folder or one of Railhead's; choose another path",
        ),
    )
    name: str | None = optional(
        "Name of the Ray Train run. Default: job name and uid. A fixed name continues where an "
        "earlier job of that name stopped, once that one has finished.",
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    )
    storage_path: Location = Field(
        description="Where checkpoints go: an absolute path that all pods see, or a URI of s3, gs or abfs."
    )
    storage_volume: StorageVolume | None = optional("Volume that is mounted at storagePath in every pod.")
    checkpoint: CheckpointConfig | None = optional("Which checkpoints are kept.")
    failure: FailureConfig | None = optional("What happens when train_func raises.")
    progress: ProgressMetrics | None = optional(
        "Where status.progress.percentComplete comes from while training code does not call "
        "railhead.training.progress with a total. Default: epoch of epochs, or step of max_steps."
    )
    collective_timeout_seconds: int | None = optional(
        "Limit for Ray Train's own collectives (RAY_TRAIN_COLLECTIVE_TIMEOUT_S), in seconds.", ge=1, le=86400
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] | None = optional(
        "Level of Ray Train's own log lines (LoggingConfig.log_level); not of your code's. Needs Ray 2.56. "
        "Default: INFO."
    )
    callbacks: list[Function] | None = optional(
        "module:Class of subclasses of ray.train.UserCallback, instantiated without arguments. "
        "They run in the head pod.",
        min_length=1,
        max_length=16,
    )


class ResumeFrom(Model):
    """Another TrainJob, or a checkpoint."""

    model_config = checked(
        exactly_one("trainJob", "checkpoint"),
        (".best", "!self.best || has(self.trainJob)", "needs trainJob"),
    )
    train_job: Name | None = optional(
        "Name of a finished TrainJob of the same namespace. Its newest checkpoint is used."
    )
    checkpoint: CheckpointLocation | None = optional("Path or URI of a checkpoint's folder, which all pods can read.")
    best: bool = Field(default=False, description="Uses status.bestCheckpoint of trainJob instead of the newest.")


DatasetName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


# In thousandths of a CPU: `w` is what the workers of a pod use, `e` what extraResources adds. Ray gets the
# sum, rounded up to whole CPUs, and a task of Ray Data or of a validation takes one. The default of 1
# always suffices.
_WORKERS = f"has({_PER_WORKER}) && 'cpu' in {_PER_WORKER} ? " + in_millis(f"{_PER_WORKER}['cpu']") + " : 1000"
_EXTRA = in_millis("self.worker.extraResources['cpu']")
CPU_FOR_TASKS = (
    ".worker.extraResources",
    f"!({HAS_TASKS}) || !has(self.worker.extraResources) || !('cpu' in self.worker.extraResources) || "
    f"[self.scaling.workersPerPod * ({_WORKERS})].all(w, "
    f"[{_EXTRA}].all(e, (w + e + 999) / 1000 * 1000 - w >= 1000))",
    "leaves no CPU for Ray Data and validation: workersPerPod x cpu + extraResources.cpu, rounded up, must be at "
    "least 1 more than workersPerPod x cpu; raise it, or remove it for the default of 1",
)


class Dataset(Model):
    """Files in one of Ray Data's formats, or a function that builds a dataset."""

    model_config = checked(
        exactly_one("uri", "function"),
        (".format", "!has(self.uri) || has(self.format)", "is required with uri"),
        (".format", "!has(self.function) || !has(self.format)", "requires uri; a function reads its data itself"),
    )
    format: Literal["parquet", "csv", "json", "text", "images", "binary"] | None = optional(
        "Format of the files, read by ray.data.read_parquet, read_csv, ..."
    )
    uri: Location | None = optional(
        "A file or a folder: an absolute path that all pods see, or a URI of s3, gs or abfs."
    )
    function: Function | None = optional(
        "module:function that returns a ray.data.Dataset, with any option of Ray Data; called in the "
        "driver, with trainLoopConfig if it takes a parameter."
    )
    split: bool = Field(
        default=True,
        description="Whether the rows are split among the workers; with false each worker reads all of them.",
    )
