"""Which of the checkpoints that Ray keeps has the best score; a report without one never wins. Pure."""

from __future__ import annotations

import json
import math
import numbers
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from railhead.driver.reporting.progress import build_checkpoint_uri, format_metrics


@dataclass(frozen=True)
class Ranking:
    """What Ray keeps.

    Attributes:
        attribute: CheckpointConfig's checkpoint_score_attribute.
        order: "min" or "max".
        kept: folder name and metrics of each checkpoint; of equal scores the later one comes later.
    """

    attribute: str
    order: str
    kept: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Commit:
    """What only the moment of the commit tells; `index` counts over all attempts."""

    index: int
    time: str
    attempt: int


def find_score(metrics: Mapping[str, Any], attribute: str) -> Optional[float]:
    """The number under `attribute`, which may be `a/b` for a nested one, as in Ray; None for none and for NaN."""
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


def find_best(ranking: Ranking, commits: Mapping[str, Commit], *, run_uri: str) -> dict[str, Any]:
    """{uri, index, time, metrics, attempt} of the best one, or an empty dict.

    Of equal scores the latest wins, as in Ray. A checkpoint that is not in `commits` has no number
    and is passed over.
    """
    sign = -1.0 if ranking.order == "min" else 1.0
    best: Optional[tuple[float, str, Mapping[str, Any]]] = None
    for name, metrics in ranking.kept:
        score = find_score(metrics, ranking.attribute)
        if score is not None and name in commits and (best is None or sign * score >= best[0]):
            best = (sign * score, name, metrics)
    if best is None:
        return {}
    _, name, metrics = best
    commit = commits[name]
    return {
        "uri": build_checkpoint_uri(run_uri, name),
        "index": commit.index,
        "time": commit.time,
        "metrics": format_metrics(metrics, first=ranking.attribute),
        "attempt": commit.attempt,
    }


def parse_known(text: str) -> dict[str, Commit]:
    """What the status tells of earlier attempts (`contract.environment.KNOWN_CHECKPOINTS`); empty for nonsense."""
    try:
        return {
            str(known["name"]): Commit(int(known["index"]), str(known["time"]), int(known["attempt"]))
            for known in json.loads(text or "[]")
        }
    except (ValueError, KeyError, TypeError):
        return {}


def explain_missing_score(name: str, ranking: Ranking) -> str:
    """What a user must know when a checkpoint was reported without the metric that ranks it."""
    return (
        f"{name} was reported without a number in {ranking.attribute!r} (run.checkpoint.scoreAttribute): "
        "it ranks behind all that have one; report the metric with each checkpoint"
    )
