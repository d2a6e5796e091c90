"""A worker pod that is deleted: the example's train_func commits one more checkpoint, from which the run resumes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import leave_room

EXAMPLE = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "digits-preemption.yaml"


@pytest.mark.slow
@pytest.mark.node
def test_a_deleted_worker_pod_leaves_a_last_checkpoint(cluster: Cluster) -> None:
    missing = cluster.find_missing(["torch", "sklearn"])
    if missing:
        pytest.skip(f"the image {cluster.image} does not have {', '.join(missing)}")
    [job] = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each["kind"] == "TrainJob"]
    name = job["metadata"]["name"]
    job["spec"] |= {"image": cluster.image, "imagePullPolicy": "IfNotPresent"}
    leave_room(job["spec"])
    # On a busy node the first commit is seen epochs later, and the pod has half a minute of grace after its deletion.
    job["spec"]["trainer"]["trainLoopConfig"] = {"epochs": 8, "lr": 0.01, "pause": 0.3}
    cluster.provide_claim(f"{name}-runs")
    cluster.apply(job)
    tell = lambda: cluster.tell(name)  # noqa: E731
    wait_until("a commit", lambda: bool(cluster.status(name).get("checkpoint")), tell=tell)
    [leaving] = [pod for pod in cluster.pod_names(name) if pod.endswith("-w1-0")]
    cluster("delete", "pod", leaving, "--wait=false")
    status = cluster.wait_end(name)
    assert status["phase"] == "Succeeded", cluster.tell(name)
    assert (status["attempt"], status["round"]) == (1, 1)
    log = cluster.log(status["head"]["pod"])
    [saved] = {int(step) for step in re.findall(r"saves step (\d+): ranks \[\d\] leave", log)}
    starts = sorted({int(step) for step in re.findall(r"rank 0 begins with step (\d+)", log)})
    assert len(starts) == 2 and starts[1] >= saved + 1, (saved, starts)
    cluster.delete_job(name)
