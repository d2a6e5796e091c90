"""Which of the checkpoints that Ray keeps has the best score; a report without a score never wins. Pure."""

from __future__ import annotations

import math
import numbers
from typing import Any, Mapping, Optional

from railhead.contract.checkpoint import NO_CHECKPOINT, Checkpoint
from railhead.driver.ray.checkpoints import Ranking
from railhead.driver.ray.types import Metrics
from railhead.driver.reporting.commits import Commit
from railhead.driver.reporting.progress import build_checkpoint_uri, format_metrics


def find_score(metrics: Mapping[str, Any], attribute: str) -> Optional[float]:
    """The number under `attribute`, which may be `a/b` for a nested one, as in Ray; None if missing or NaN."""
    value = _find_value(metrics, attribute)
    if not isinstance(value, numbers.Real):
        return None
    score = float(value)
    return None if math.isnan(score) else score


def _find_value(metrics: Mapping[str, Any], name: str) -> Any:
    if name in metrics and not isinstance(metrics[name], Mapping):
        return metrics[name]
    for key, inner in metrics.items():
        if isinstance(inner, Mapping) and name.startswith(f"{key}/"):
            found = _find_value(inner, name[len(str(key)) + 1 :])
            if found is not None:
                return found
    return None


def find_best(ranking: Ranking, commits: Mapping[str, Commit], *, run_uri: str) -> Checkpoint:
    """The best one, or NO_CHECKPOINT.

    On equal scores the latest wins, as in Ray. A checkpoint that is not in `commits` has no index
    and is skipped.
    """
    sign = -1.0 if ranking.order == "min" else 1.0
    best: Optional[tuple[float, str, Metrics]] = None
    for name, metrics in ranking.kept:
        score = find_score(metrics, ranking.attribute)
        if score is not None and name in commits and (best is None or sign * score >= best[0]):
            best = (sign * score, name, metrics)
    if best is None:
        return NO_CHECKPOINT
    _, name, metrics = best
    commit = commits[name]
    return Checkpoint(
        build_checkpoint_uri(run_uri, name),
        commit.index,
        commit.time,
        format_metrics(metrics, first=ranking.attribute),
        commit.attempt,
    )


def explain_missing_score(name: str, ranking: Ranking) -> str:
    """The warning for a checkpoint that was reported without the metric that ranks it."""
    return (
        f"{name} was reported without a number in {ranking.attribute!r} (run.checkpoint.scoreAttribute): "
        "it ranks behind all checkpoints that have one; report the metric with each checkpoint"
    )
