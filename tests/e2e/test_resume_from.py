"""A job that begins where another one ended; and one that must wait for it."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job, read_starts, with_config


@pytest.mark.slow
def test_a_job_begins_from_the_checkpoint_of_another_one(cluster: Cluster) -> None:
    first = with_config(make_job("teacher", cluster.image), epochs=3, seconds=0.2)
    second = make_job("pupil", cluster.image, resumeFrom={"trainJob": "teacher"})
    cluster.apply(with_config(second, epochs=5, seconds=0.2))

    def is_refused(reason: str) -> bool:
        conditions = cluster.status("pupil").get("conditions", [])
        return [c["reason"] for c in conditions if c["status"] == "True"] == [reason]

    wait_until("a refusal", lambda: is_refused("SourceNotFound"))
    cluster.apply(first)
    wait_until("another one", lambda: is_refused("SourceStillRuns"), tell=lambda: cluster.tell("pupil"))
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
