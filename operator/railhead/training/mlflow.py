"""For MLflow: one run over all attempts of a job, with a link to it in the job's status.

MLflow chooses the id of a run by itself, so that a variable cannot tell it in advance. Call `start_run` on rank 0 in
place of `mlflow.start_run`.
"""

from __future__ import annotations

import os
from typing import Mapping, Optional

import mlflow

from railhead import training
from railhead.contract.trackers import RUN_ID

__all__ = ["start_run"]

TAG = "railhead_run"


def start_run(
    *,
    run_name: Optional[str] = None,
    tags: Optional[Mapping[str, str]] = None,
    description: Optional[str] = None,
    log_system_metrics: Optional[bool] = None,
    ui_url: str = "",
) -> mlflow.ActiveRun:
    """Continues the MLflow run that an earlier attempt has begun in the active experiment, or begins it.

    The arguments are those of `mlflow.start_run`, and so are the result, which may stand in a `with` statement, and the
    exceptions. The run is found by its tag `railhead_run`, which is `railhead.training.run_id()`, as is the name of a
    new run. With the variable MLFLOW_RUN_ID that run is continued, and outside of a TrainJob a new one begins.

    Args:
        ui_url: where a browser finds MLflow, for the link, if that is not the tracking URI.

    Raises:
        RuntimeError: this is not rank 0.
    """
    _require_rank_0()
    run_id = os.environ.get(RUN_ID, "")
    known = ""
    if run_id and "MLFLOW_RUN_ID" not in os.environ:
        known = _find_run(run_id)
        tags = {**(tags or {}), TAG: run_id}
        run_name = run_name or run_id
    if known:
        # A user may have renamed the run, and a name given here would undo that.
        run_name = None
    run = mlflow.start_run(
        run_id=known or None,
        run_name=run_name,
        tags=dict(tags or {}),
        description=description,
        log_system_metrics=log_system_metrics,
    )
    place = (ui_url or mlflow.get_tracking_uri()).rstrip("/")
    training.link_tracker(f"{place}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}")
    return run


def _require_rank_0() -> None:
    if not os.environ.get(RUN_ID):
        return
    import ray.train

    rank = ray.train.get_context().get_world_rank()
    if rank != 0:
        raise RuntimeError(
            f"railhead.training.mlflow.start_run: this is rank {rank}; call it on rank 0 only, since on any other it "
            "would begin a second run"
        )


def _find_run(run_id: str) -> str:
    """Returns MLflow's id of the run, or an empty string. Of several the oldest: the others have begun it at once."""
    found = mlflow.search_runs(
        filter_string=f"tags.{TAG} = '{run_id}'",
        order_by=["attributes.start_time ASC"],
        max_results=1,
        output_format="list",
    )
    if found:
        return str(found[0].info.run_id)
    return ""
