"""The snapshot format that the installed Ray reads and writes; derived from Ray's own class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """The snapshot's format, as the installed Ray reads and writes it."""

    fields: frozenset[str]
    ray_version: str


def find_form() -> Form:
    from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import _CheckpointManagerState as State

    import ray

    return Form(frozenset(getattr(State, "model_fields", None) or State.__fields__), ray.__version__)
