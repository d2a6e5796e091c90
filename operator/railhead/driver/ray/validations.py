"""Reads which validations Ray Train waits for, from its ValidationManager in the controller.

What is read here is only shown, so a Ray that keeps it elsewhere, or has none of it, has nothing to show.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from railhead.driver.ray.types import WorkerGroup

MANAGER = "ValidationManager"
RUNNING = "_pending_validations"
WAITING = "_training_report_queue"


def find_validation_manager(worker_group: WorkerGroup) -> Optional[Any]:
    """Returns Ray's manager of the run's validations; None if the trainer has no validation function."""
    callbacks = getattr(worker_group, "_callbacks", ())
    return next((each for each in callbacks if type(each).__name__ == MANAGER), None)


def read_validations(manager: Any) -> Tuple[Tuple[str, ...], int]:
    """Returns the paths of the checkpoints that are validated now, and how many others wait for that."""
    running = list(getattr(manager, RUNNING, {}).values())
    # Until Ray 2.55 the value is the checkpoint itself.
    paths = tuple(str(getattr(each, "checkpoint", each).path) for each in running)
    return paths, len(getattr(manager, WAITING, ()))
