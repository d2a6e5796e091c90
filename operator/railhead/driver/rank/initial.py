"""spec.resumeFrom on a worker: what `ray.train.get_checkpoint()` returns while the run has no checkpoint of its own.

Reaches into Ray: its trainers no longer have a parameter for it, and a callback cannot set it,
so this sets it in the worker's train context, right before the user's function is called. Ray's
checkpoint manager never learns of it, so this run never deletes it.
"""

from __future__ import annotations


def offer_checkpoint(uri: str) -> None:
    """Does nothing if the run has its own checkpoint, or `uri` is empty."""
    if not uri:
        return
    from ray.train import Checkpoint
    from ray.train.v2._internal.execution.context import get_train_context

    context = get_train_context()
    if context.checkpoint is None:
        context.checkpoint = Checkpoint(uri)
