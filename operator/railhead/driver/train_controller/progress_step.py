"""Tells the driver the progress of a fit(), in Ray Train's controller: reports, commits and the best checkpoint.

It never blocks and never raises. A report without a score never wins.
"""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Mapping, Optional

from railhead.contract import environment
from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.report import CHECKPOINT_NAME_REPEATED, NO_CHECKPOINT, RunWarning
from railhead.contract.report import CommittedCheckpoint as CheckpointRecord
from railhead.contract.times import now_text
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress, ReportTimes, find_value, format_metrics, parse_known
from railhead.driver.messages.log import log, never_raises
from railhead.driver.messages.rank_marks import name_process
from railhead.driver.ray import checkpoint_manager
from railhead.driver.ray.checkpoint_manager import Ranking
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.train_context import TIMES
from railhead.driver.ray.types import CheckpointManager, Metrics, TrainingReport, WorkerGroup
from railhead.driver.train_controller.heartbeat_thread import watch_steps
from railhead.driver.train_controller.worker_group import Group


class ProgressStep(ControllerStep):
    """Ray calls it after its own checkpoint manager, so a checkpoint seen here is committed."""

    def __init__(self, group: Group, mailbox: Mailbox, run: RunContext) -> None:
        self._group = group
        self._mailbox = mailbox
        self._box = mailbox.controller
        self._run_uri = run.run_uri
        self._first_index = int(os.environ.get(environment.CHECKPOINT_INDEX) or -1) + 1
        self._attempt = int(os.environ.get(environment.ATTEMPT) or 1)
        self._commits = parse_known(os.environ.get(environment.KNOWN_CHECKPOINTS, ""), run_uri=run.run_uri)
        self._manager: Optional[CheckpointManager] = None
        self._ranking: Optional[Ranking] = None
        self._has_warned = False
        self._progress = self._box.read().progress.begin_run(resumed_from=run.resumed_from, warning=run.warning)

    @never_raises("record progress")
    def after_state(self, name: str) -> None:
        progress = self._progress.with_ray_state(name)
        # From here on it is known that all pods see the folder.
        if progress.has_run:
            progress = replace(progress, run_uri=self._run_uri)
        self._change(progress)

    @never_raises("record progress")
    def after_group_start(self, worker_group: WorkerGroup) -> None:
        watch_steps(self._group, worker_group, self._mailbox)
        # Known even if the group is shut down before it fails.
        found = self._group.read_processes()
        processes = tuple(name_process(each.node_id, each.pid) for each in found.values())
        manager = self._manager = checkpoint_manager.find_manager(worker_group)
        checkpoint_manager.repair_scores(manager, find_score)
        self._record_unreported_commit(manager)
        self._change(self._with_best(replace(self._progress, processes=processes, times=ReportTimes())))

    @never_raises("record progress")
    def after_finish(self) -> None:
        """Chooses the best one again: a validation may have added metrics after the last report."""
        self._change(self._with_best(self._progress))

    @never_raises("record progress")
    def after_report(self, report: TrainingReport, metrics: Metrics) -> None:
        checkpoint = report.checkpoint
        self._group.commits += checkpoint is not None
        self._group.note_report()
        name = None
        if self._manager and checkpoint:
            name = checkpoint_manager.name_checkpoint(self._manager, checkpoint)
        progress = self._progress.with_report(metrics)
        if name:
            # The storage takes checkpoints again.
            self._box.change(partial(replace, warning=None))
            progress = self._add_commit(progress, name, metrics)
            begun = self._group.reports_before_end
            times = ReportTimes(*getattr(checkpoint, TIMES, ()))  # from rank 0, after its upload
            is_last = progress.has_last_commit or (begun is not None and self._group.reports > begun)
            progress = self._with_best(replace(progress, has_last_commit=is_last, times=times))
            self._warn_of_missing_score(name)
        self._change(self._warn_of_repeated_name(progress))

    def _record_unreported_commit(self, manager: CheckpointManager) -> None:
        """Records a commit of which the last attempt died before it could report it.

        It does so now, under the next index, so that no index is used twice and it can be the best. Likewise
        an older one that this attempt fell back to: the newest known index must name what the run resumes from.
        """
        if self._attempt == 1 or environment.KNOWN_CHECKPOINTS not in os.environ or self._progress.commits:
            # In the first attempt it belongs to another job with the same run.name.
            return
        if self._first_index and self._first_index - 1 not in {each.index for each in self._commits.values()}:
            # The newest commit is in another run of the script.
            return
        latest = checkpoint_manager.find_latest(manager)
        if latest is None:
            return
        name, metrics = latest
        known = self._commits.get(name)
        if known is not None and known.index == self._first_index - 1:
            return
        self._progress = self._add_commit(self._progress, name, metrics)

    def _add_commit(self, progress: Progress, name: str, metrics: Metrics) -> Progress:
        """Records the commit under the next index, which continues those of earlier attempts."""
        index = self._first_index + progress.commits
        uri = build_checkpoint_uri(self._run_uri, name)
        commit = CheckpointRecord(uri, index, now_text())
        self._commits[name] = replace(commit, attempt=self._attempt)
        return progress.with_commit(replace(commit, metrics=format_metrics(metrics)))

    def _with_best(self, progress: Progress) -> Progress:
        if self._manager:
            self._ranking = ranking = checkpoint_manager.read_ranking(self._manager)
        else:
            self._ranking = ranking = None
        if ranking is None:
            return progress
        kept = {name for name, _ in ranking.kept}
        self._commits = {name: commit for name, commit in self._commits.items() if name in kept}
        return replace(progress, best_checkpoint=choose_best(ranking, self._commits))

    def _warn_of_missing_score(self, name: str) -> None:
        """Warns once: every report is likely to lack it."""
        ranking = self._ranking
        if ranking and not self._has_warned and find_score(dict(ranking.kept).get(name, {}), ranking.attribute) is None:
            self._has_warned = True
            what = f"{name} was reported without a number in {ranking.attribute!r} (run.checkpoint.scoreAttribute)"
            advice = "it ranks behind all checkpoints that have one; report the metric with each checkpoint"
            log(f"{what}: {advice}")

    def _warn_of_repeated_name(self, progress: Progress) -> Progress:
        """Warns for the rest of this fit(), unless there is another warning."""
        name = self._group.repeated_name
        if not name or progress.warning:
            return progress
        message = (
            f"ray.train.report has received checkpoint_dir_name={name!r} again although the checkpoint of that name is "
            "kept: the new one overwrites it, and if an upload is interrupted, both are lost; give each checkpoint a "
            "name of its own, or none"
        )
        log(message)
        return replace(progress, warning=RunWarning(CHECKPOINT_NAME_REPEATED, message))

    def _change(self, progress: Progress) -> None:
        if progress != self._progress:
            self._progress = progress
            self._box.change(partial(replace, progress=progress))


def find_score(metrics: Metrics, attribute: str) -> Optional[float]:
    """Returns the number under `attribute`, which may be `a/b` for a nested one, as in Ray; None if missing or NaN."""
    value = find_value(metrics, attribute)
    if not isinstance(value, numbers.Real):
        return None
    score = float(value)
    if math.isnan(score):
        return None
    return score


def choose_best(ranking: Ranking, commits: Mapping[str, CheckpointRecord]) -> CheckpointRecord:
    """Returns the best one, or NO_CHECKPOINT.

    On equal scores the latest wins, as in Ray. A checkpoint that is not in `commits` has no index
    and is skipped.
    """
    sign = -1.0 if ranking.order == "min" else 1.0
    scored = [(find_score(metrics, ranking.attribute), name, metrics) for name, metrics in ranking.kept]
    known = [(sign * score, name, metrics) for score, name, metrics in scored if score is not None and name in commits]
    if not known:
        return NO_CHECKPOINT
    # `max` takes the first of equal ones.
    _, name, metrics = max(reversed(known), key=itemgetter(0))
    return replace(commits[name], metrics=format_metrics(metrics, first=ranking.attribute))
