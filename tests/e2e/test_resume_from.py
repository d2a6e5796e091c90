"""A job that starts from another one's checkpoint, after waiting for it."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job, read_starts, with_config


@pytest.mark.slow
def test_a_job_waits_for_another_one_and_starts_from_its_checkpoint(cluster: Cluster) -> None:
    first = with_config(make_job("teacher", cluster.image), epochs=3, seconds=0.2)
    second = make_job("pupil", cluster.image, resumeFrom={"trainJob": "teacher"})
    cluster.apply(with_config(second, epochs=5, seconds=0.2))

    def is_stalled(reason: str) -> bool:
        conditions = cluster.status("pupil").get("conditions", [])
        return [c["reason"] for c in conditions if c["status"] == "True"] == [reason]

    wait_until("SourceNotFound", lambda: is_stalled("SourceNotFound"))
    cluster.apply(first)
    wait_until("SourceStillRuns", lambda: is_stalled("SourceStillRuns"), tell=lambda: cluster.tell("pupil"))
    assert not cluster.pods("pupil")
    source = cluster.wait_end("teacher")
    assert source["phase"] == "Succeeded", cluster.tell("teacher")
    status = cluster.wait_end("pupil")
    assert status["phase"] == "Succeeded", cluster.tell("pupil")
    assert status["initialCheckpoint"] == {"uri": source["checkpoint"]["uri"], "trainJob": "teacher"}
    assert status["resumedFrom"] == {"uri": source["checkpoint"]["uri"]}
    assert read_starts(cluster, "pupil") == [3]
    assert status["checkpoint"]["index"] == 1 and "Stalled" not in {c["type"] for c in status["conditions"]}
    for name in ("teacher", "pupil"):
        cluster.delete_job(name)
