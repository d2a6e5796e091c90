"""spec.datasets: the Ray Data datasets that the workers read, by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from railhead.api.base import Function, Model, rules
from railhead.api.run import LOCATION, NO_CREDENTIALS, NO_DOTS

DatasetName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


# In thousandths of a CPU: `w` is what the workers of a pod use, `e` what extraResources adds. Ray gets the
# sum, rounded up to whole CPUs, and a task of Ray Data or of a validation takes one. The default of 1
# always suffices.
def _millis(quantity: str) -> str:
    return f"int(quantity(string({quantity})).asApproximateFloat() * 1000.0 + 0.5)"


HAS_TASKS = "has(self.datasets) || has(self.trainer.validationFunction)"  # in addition to the workers
_PER_WORKER = "self.scaling.resourcesPerWorker"
_WORKERS = f"has({_PER_WORKER}) && 'cpu' in {_PER_WORKER} ? " + _millis(f"{_PER_WORKER}['cpu']") + " : 1000"
_EXTRA = _millis("self.worker.extraResources['cpu']")
CPU_FOR_TASKS = (
    ".worker.extraResources",
    f"!({HAS_TASKS}) || !has(self.worker.extraResources) || !('cpu' in self.worker.extraResources) || "
    f"[self.scaling.workersPerPod * ({_WORKERS})].all(w, "
    f"[{_EXTRA}].all(e, (w + e + 999) / 1000 * 1000 - w >= 1000))",
    "leaves no CPU for Ray Data and validation: workersPerPod x cpu + extraResources.cpu, rounded up, must be at "
    "least 1 more than workersPerPod x cpu; raise it, or remove it for the default of 1",
)

SPLIT_OF_BUILD = (
    ".datasets",
    "!has(self.trainer.build) || !has(self.datasets) || self.datasets.all(n, self.datasets[n].split)",
    "split requires trainFunc; with build pass a DataConfig to the trainer",
)


class Dataset(Model):
    """Files in one of Ray Data's formats, or a function that builds a dataset."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("", "has(self.uri) != has(self.function)", "exactly one of uri and function must be set"),
            (".format", "!has(self.uri) || has(self.format)", "is required with uri"),
            (".format", "!has(self.function) || !has(self.format)", "requires uri; a function reads its data itself"),
        )
    )
    format: Literal["parquet", "csv", "json", "text", "images", "binary"] | None = Field(
        default=None, description="Format of the files, read by ray.data.read_parquet, read_csv, ..."
    )
    uri: str | None = Field(
        default=None,
        min_length=2,
        max_length=1024,
        pattern=LOCATION,
        description="A file or a folder: an absolute path that all pods see, or a URI of s3, gs, abfs or hdfs.",
        json_schema_extra=rules(NO_DOTS, NO_CREDENTIALS),
    )
    function: Function | None = Field(
        default=None,
        description="module:function that returns a ray.data.Dataset, with any option of Ray Data; called in the "
        "driver, with trainLoopConfig if it takes a parameter.",
    )
    split: bool = Field(
        default=True,
        description="Whether the rows are split among the workers; with false each worker reads all of them.",
    )
