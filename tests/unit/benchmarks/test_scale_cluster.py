"""Pods of a whole cluster, counted by their watch events."""

from __future__ import annotations

import json

from benchmarks.scale.cluster import Stages


def event(kind: str, uid: str, phase: str) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"uid": uid}, "status": {"phase": phase}}}).encode()


async def test_each_pod_counts_once_in_each_stage() -> None:
    stages = Stages(2)
    for kind, uid, phase in [
        ("ADDED", "a", "Pending"),
        ("ADDED", "b", "Pending"),
        ("MODIFIED", "a", "Running"),
        ("MODIFIED", "a", "Running"),
        ("MODIFIED", "b", "Succeeded"),  # Running was not seen
        ("DELETED", "a", "Running"),
    ]:
        stages.look(event(kind, uid, phase))
    await stages.created.wait()
    await stages.running.wait()
    assert (stages.finished.left, stages.gone.left) == (1, 1)
