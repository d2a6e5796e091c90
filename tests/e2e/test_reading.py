"""What the command line reads on a real kubelet: by exec while the job trains, by a Job once its pods are gone."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.client.exit_codes import ExitCode
from tests.e2e.cluster import PATIENCE, Cluster, Object, wait_until
from tests.e2e.command_line import CommandLine
from tests.e2e.jobs import make_job, with_config

pytestmark = [pytest.mark.slow, pytest.mark.reading]  # not `node`: a minute and a half more for each landing
JOB = "read"
CLAIM = "read-once"
QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "full"},
    "spec": {"hard": {"pods": "0"}},
}


@pytest.fixture
def job(cluster: Cluster) -> Iterator[str]:
    """A job that trains, with its run on a claim for one node."""
    cluster.provide_claim(CLAIM, mode="ReadWriteOnce")
    storage = {"storagePath": "/runs", "storageVolume": {"persistentVolumeClaim": {"claimName": CLAIM}}}
    # Each checkpoint stays for 15 s: on a busy node each of a command's requests by exec needs 3 s.
    run = {**storage, "checkpoint": {"numToKeep": 5}}
    env = [{"name": "NOTES", "value": "/runs/notes"}]
    cluster.apply(with_config(make_job(JOB, cluster.image, run=run, env=env), epochs=500, seconds=3.0))
    committed = lambda: (cluster.status(JOB).get("checkpoint") or {}).get("index", -1) >= 4  # noqa: E731
    wait_until("five checkpoints", committed, tell=lambda: cluster.tell(JOB))
    yield JOB
    cluster.delete_job(JOB)


def test_a_run_is_read_by_exec_while_it_trains_and_by_a_job_afterwards(
    cluster: Cluster, job: str, tmp_path: Path
) -> None:
    if cluster.is_local:
        pytest.skip("the node of local mode has no exec")
    call = CommandLine(cluster, tmp_path)
    host = "import socket; print(socket.gethostname())"
    pod = call("exec", job, "--rank", "1", "--", "python3", "-c", host).strip()
    assert pod in cluster.pod_names(job) and "line of rank 1 epoch" in cluster.log(pod)
    stacks = call("stacks", job)
    assert "in train_func" in stacks and any(each in stacks for each in ("ranks 0-1: ", "rank 1: "))
    assert "line of rank 1 epoch 1" in call("logs", job, "--rank", "1")
    assert "damaged" not in call("checkpoints", job, "--verify"), "those that Ray deletes meanwhile are left out"
    assert not find_readers(cluster), "a pod of the job has the claim"

    call("suspend", job)
    newest = cluster.wait_phase(job, "Suspended")["checkpoint"]
    wait_until("the end of the pods", lambda: not cluster.pods(job))
    assert "loss" in call("metrics", job)
    assert call("checkpoints", job, "--verify").count(" intact, ") == 5, "those that the job keeps"
    assert "line of rank 1 epoch 1" in call("logs", job, "--rank", "1", "--attempt", "1")
    call("checkpoints", job, "--download", str(tmp_path / "newest"), "--checkpoint", "newest")
    assert json.loads((tmp_path / "newest" / "epoch.json").read_text()) == newest["index"]
    assert not find_readers(cluster), "each command deletes its Job"

    with call.start("checkpoints", job, "--download", str(tmp_path / "interrupted")) as process:
        [reader] = wait_until("a reader's Job", lambda: find_readers(cluster))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == ExitCode.INTERRUPTED
    check_reader(reader)
    assert not find_readers(cluster)

    cluster.apply(QUOTA)
    try:
        began = time.monotonic()
        assert "exceeded quota: full" in call("metrics", job, code=ExitCode.REFUSED)
        assert time.monotonic() - began < 10
    finally:
        cluster("delete", "resourcequota", "full")
    assert not find_readers(cluster)


def find_readers(cluster: Cluster) -> list[Object]:
    found: list[Object] = json.loads(cluster("get", "jobs.batch", "-o", "json"))["items"]
    return [each for each in found if not each["metadata"].get("deletionTimestamp")]


def check_reader(reader: Object) -> None:
    """It has the claim and nothing else of the job."""
    assert [owner["kind"] for owner in reader["metadata"]["ownerReferences"]] == ["TrainJob"]
    assert (reader["spec"]["activeDeadlineSeconds"], reader["spec"]["ttlSecondsAfterFinished"]) == (600, 60)
    pod = reader["spec"]["template"]["spec"]
    [container], [volume] = pod["containers"], pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM and pod["automountServiceAccountToken"] is False
    assert [mount["readOnly"] for mount in container["volumeMounts"]] == [True]
    assert "env" not in container and "envFrom" not in container
