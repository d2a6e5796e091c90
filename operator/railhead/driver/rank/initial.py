"""spec.resumeFrom on a worker: what `ray.train.get_checkpoint()` answers while the run has no checkpoint of its own.

Reaches into Ray: its trainers have no parameter for it any more, and a callback may not set it,
so it is put into the worker's train context, right before the user's function is called. Ray's
checkpoint manager never hears of it, so it is never deleted by this run.
"""

from __future__ import annotations


def offer_checkpoint(uri: str) -> None:
    """Nothing happens when the run has one of its own, or `uri` is empty."""
    if not uri:
        return
    from ray.train import Checkpoint
    from ray.train.v2._internal.execution.context import get_train_context

    context = get_train_context()
    if context.checkpoint is None:
        context.checkpoint = Checkpoint(uri)
