"""Our callback in Ray Train's controller: writes progress to the spool. Never blocks, never raises.

Named in RAY_TRAIN_CALLBACKS, so the user's code need not mention it. Ray creates it in the
driver and pickles it into the controller. An exception here would end the run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Optional, TypeVar

from ray.train.v2._internal.execution.callback import ControllerCallback, ReportCallback, WorkerGroupCallback

from railhead.contract import environment as e
from railhead.contract.report import CHECKPOINT_NAME_REPEATED, RunWarning
from railhead.contract.times import now_text
from railhead.driver.describe import describe_exception
from railhead.driver.logs.output import name_process
from railhead.driver.reporting.commits import Commit, parse_known
from railhead.driver.reporting.progress import Progress, build_checkpoint_uri, format_metrics
from railhead.driver.reporting.spool import Spool
from railhead.driver.run_context import RunContext
from railhead.driver.train_controller import group, ray_checkpoints
from railhead.driver.train_controller.best_checkpoint import (
    Ranking,
    explain_missing_score,
    find_best,
    find_score,
)
from railhead.driver.train_controller.heartbeat import watch_steps

_F = TypeVar("_F", bound=Callable[..., Any])


def never_raises(method: _F) -> _F:
    @functools.wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            print(f"railhead: cannot record progress: {describe_exception(error)}", file=sys.stderr, flush=True)
            return None

    return guarded  # type: ignore[return-value]


class ProgressCallback(ControllerCallback, WorkerGroupCallback, ReportCallback):  # type: ignore[misc]
    """Ray calls it after its own checkpoint manager, so a checkpoint seen here is committed."""

    def __init__(self) -> None:
        self._spool = Spool(Path(os.environ[e.TEMP]))
        run = RunContext.read()
        self._run_uri = run.run_uri
        self._first_index = int(os.environ.get(e.CHECKPOINT_INDEX) or -1) + 1
        self._attempt = int(os.environ.get(e.ATTEMPT) or 1)
        self._commits = parse_known(os.environ.get(e.KNOWN_CHECKPOINTS, ""), run_uri=run.run_uri)
        self._manager: Any = None
        self._ranking: Optional[Ranking] = None
        self._has_warned = False
        self._progress = Progress.from_dict(self._spool.read()).begin_run(
            resumed_from=run.resumed_from, warning=run.warning
        )

    @never_raises
    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
        progress = self._progress.with_ray_state(current_state._state_type.state_name)
        if progress.has_run:  # now it is checked that all pods see the folder
            progress = replace(progress, run_uri=self._run_uri)
        self._change(progress)

    def before_init_train_context(self, workers: Any) -> dict[str, list[Any]]:
        """What fails while they form their process group is theirs."""
        with contextlib.suppress(Exception):
            group.CURRENT.note_workers(workers)
        return {}

    @never_raises
    def after_worker_group_start(self, worker_group: Any) -> None:
        group.CURRENT.worker_group, group.CURRENT.reports = worker_group, 0
        watch_steps(worker_group, self._spool)
        found = group.CURRENT.read_processes()  # known even if the group is shut down before it fails
        processes = tuple(name_process(each.node, each.pid) for each in found.values())
        self._manager = ray_checkpoints.find_manager(worker_group)
        if self._manager is not None:
            ray_checkpoints.repair_scores(self._manager)
            self._record_unreported_commit()
        self._change(self._with_best(replace(self._progress, processes=processes)))

    @never_raises
    def after_controller_finish(self, result: Any) -> None:
        """A validation may have added metrics after the last report."""
        self._change(self._with_best(self._progress))

    @never_raises
    def after_report(self, training_report: Any, metrics: Any) -> None:
        checkpoint = training_report.checkpoint
        group.CURRENT.commits += checkpoint is not None
        group.CURRENT.note_report()
        name = self._name(checkpoint) if checkpoint else None
        time = now_text()
        values = metrics[0] if metrics else training_report.metrics
        uri = build_checkpoint_uri(self._run_uri, name) if name else None
        index = self._first_index + self._progress.commits
        progress = self._progress.with_report(
            values or {}, checkpoint_uri=uri, first_index=self._first_index, time=time
        )
        if name:
            self._spool.forget_warning()  # the storage takes checkpoints again
            self._commits[name] = Commit(index, time, self._attempt)
            begun = group.CURRENT.reports_before_end
            is_last = progress.has_last_commit or (begun is not None and group.CURRENT.reports > begun)
            progress = self._with_best(replace(progress, has_last_commit=is_last))
            self._warn_of_missing_score(name)
        self._change(self._warn_of_repeated_name(progress))

    def _record_unreported_commit(self) -> None:
        """The last attempt may have died between its last commit and the report of it.

        Records that commit now, under the next index, so that no index is used twice and it can be the best. Likewise
        an older one that this attempt fell back to: the newest known index must name what the run resumes from.
        """
        if self._attempt == 1 or e.KNOWN_CHECKPOINTS not in os.environ or self._progress.commits:
            return  # in the first attempt it belongs to another job with the same run.name
        if self._first_index and self._first_index - 1 not in {each.index for each in self._commits.values()}:
            return  # the newest commit is in another run of the script
        latest = ray_checkpoints.find_latest(self._manager)
        if latest is None:
            return
        name, metrics = latest
        known = self._commits.get(name)
        if known is not None and known.index == self._first_index - 1:
            return
        uri, time = build_checkpoint_uri(self._run_uri, name), now_text()
        self._commits[name] = Commit(self._first_index, time, self._attempt)
        self._progress = self._progress.with_commit(
            format_metrics(metrics), checkpoint_uri=uri, first_index=self._first_index, time=time
        )

    def _name(self, checkpoint: Any) -> str:
        if self._manager is None:
            return PurePosixPath(checkpoint.path).name
        return ray_checkpoints.name_checkpoint(self._manager, checkpoint)

    def _with_best(self, progress: Progress) -> Progress:
        self._ranking = ranking = ray_checkpoints.read_ranking(self._manager) if self._manager else None
        if ranking is None:
            return progress
        kept = {name for name, _ in ranking.kept}
        self._commits = {name: commit for name, commit in self._commits.items() if name in kept}
        return replace(progress, best_checkpoint=find_best(ranking, self._commits, run_uri=self._run_uri))

    def _warn_of_missing_score(self, name: str) -> None:
        """Once: every report is likely to lack it."""
        ranking = self._ranking
        if ranking and not self._has_warned and find_score(dict(ranking.kept).get(name, {}), ranking.attribute) is None:
            self._has_warned = True
            print(f"railhead: {explain_missing_score(name, ranking)}", flush=True)

    def _warn_of_repeated_name(self, progress: Progress) -> Progress:
        """For the rest of this fit(), unless there is another warning."""
        name = group.CURRENT.repeated_name
        if not name or progress.warning:
            return progress
        message = (
            f"ray.train.report has received checkpoint_dir_name={name!r} again although the checkpoint of that name is "
            "kept: the new one overwrites it, and if an upload is interrupted, both are lost; give each checkpoint a "
            "name of its own, or none"
        )
        print(f"railhead: {message}", flush=True)
        return replace(progress, warning=RunWarning(CHECKPOINT_NAME_REPEATED, message))

    def _change(self, progress: Progress) -> None:
        if progress != self._progress:
            self._progress = progress
            self._spool.write(progress.to_dict())
