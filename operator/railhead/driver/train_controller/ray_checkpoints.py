"""Ray Train's checkpoint manager, as seen from a callback: which checkpoints it keeps, and how it ranks them.

Reaches into Ray: the manager is one of the worker group's callbacks, and only it knows the
checkpoints of earlier attempts, what was deleted, and metrics that a validation added later.
"""

from __future__ import annotations

from typing import Any, Optional

from railhead.driver.train_controller.best_checkpoint import Ranking, find_score


def find_manager(worker_group: Any) -> Optional[Any]:
    """The run's CheckpointManager, or None when this Ray keeps it elsewhere."""
    from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager

    callbacks = getattr(worker_group, "_callbacks", ())
    return next((each for each in callbacks if isinstance(each, CheckpointManager)), None)


def repair_scores(manager: Any) -> None:
    """Makes a checkpoint without a score rank below all others, as one with a NaN does.

    Ray by itself treats a missing metric as the very best with order "min", and so deletes good
    checkpoints in its favour. It also raises in its controller on a string, and on a NaN that it read
    back from its own snapshot, where it is a null: the run would fail at each commit after a restart.
    """
    config = manager._checkpoint_config
    if not config.checkpoint_score_attribute:
        return
    sign = -1.0 if config.checkpoint_score_order == "min" else 1.0

    def compute_score(result: Any) -> tuple[bool, float]:
        score = find_score(result.metrics or {}, config.checkpoint_score_attribute)
        return (False, float("-inf")) if score is None else (True, sign * score)

    manager._get_checkpoint_score = compute_score


def name_checkpoint(manager: Any, checkpoint: Any) -> str:
    """The checkpoint's folder, relative to the run's; a user may choose a name with slashes."""
    return str(manager._storage_context.extract_checkpoint_dir_name_from_path(checkpoint.path))


def list_names(manager: Any) -> list[str]:
    """Of all that the manager keeps."""
    return [name_checkpoint(manager, each.checkpoint) for each in manager._checkpoint_results]


def drop_repeated(manager: Any) -> str:
    """Forgets older checkpoints in the newest one's folder; returns its name if there were any, else an empty string.

    A user may repeat a `checkpoint_dir_name`. Ray would count the folder twice, and delete it with the older one.
    """
    latest = manager.latest_checkpoint_result
    results = manager._checkpoint_results
    older = [each for each in results if each is not latest and each.checkpoint.path == latest.checkpoint.path]
    for each in older:
        results.remove(each)
        for known in vars(manager).values():  # its report's number, and its validation
            if isinstance(known, dict):
                known.pop(each.checkpoint, None)
            elif isinstance(known, set):
                known.discard(each.checkpoint)
    return name_checkpoint(manager, latest.checkpoint) if older else ""


def find_latest(manager: Any) -> Optional[tuple[str, dict[str, Any]]]:
    """Name and metrics of the newest checkpoint, including an earlier attempt's; None when there is none."""
    latest = manager.latest_checkpoint_result
    return (name_checkpoint(manager, latest.checkpoint), latest.metrics or {}) if latest else None


def read_ranking(manager: Any) -> Optional[Ranking]:
    """What the manager keeps at the moment; None when the run has no score attribute."""
    config = manager._checkpoint_config
    if not config.checkpoint_score_attribute:
        return None
    kept = tuple(
        (name_checkpoint(manager, each.checkpoint), each.metrics or {}) for each in manager._checkpoint_results
    )
    return Ranking(config.checkpoint_score_attribute, config.checkpoint_score_order or "max", kept)
