"""A job whose checkpoints are in S3, with credentials from a Secret; its head is lost on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray.train
import yaml
from pyarrow.fs import FileSelector, FileSystem

from railhead.history import History, read_history
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import COUNTING, EXAMPLES, make_job, with_config
from tests.s3 import S3, start_s3

# The first attempt commits four checkpoints and then hangs until its head is lost.
CODE = COUNTING.replace(
    "        time.sleep(",
    "        while epoch == 4 and not first:\n            time.sleep(0.1)\n        time.sleep(",
    1,
)


@pytest.fixture(scope="module")
def s3(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    if not cluster.is_local:
        pytest.skip("the S3 server listens on this machine's loopback, which pods of a real node do not reach")
    with start_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


def read_all(cluster: Cluster, name: str) -> str:
    """Everything about the job that is readable without access to Secrets."""
    kinds = "trainjobs.railhead.dev,pods,configmaps,services,events"
    return cluster("get", kinds, "-o", "json") + "".join(cluster.log(pod) for pod in cluster.pod_names(name))


def read_metrics(run_uri: str) -> History:
    """Needs the storage's credentials in the environment, and no pod."""
    filesystem, run = FileSystem.from_uri(run_uri)
    found = filesystem.get_file_info(FileSelector(f"{run}/.railhead/metrics"))
    return read_history({info.base_name: filesystem.open_input_stream(info.path).read() for info in found})


@pytest.mark.slow
def test_a_run_in_s3_resumes_after_the_head_is_lost(cluster: Cluster, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": s3.environment}
    run = {
        "storagePath": s3.build_uri("runs"),
        "checkpoint": {"numToKeep": 2, "scoreAttribute": "epoch", "scoreOrder": "min"},
    }
    env_from = [{"secretRef": {"name": "s3"}}]
    notes = [{"name": "NOTES", "value": "/tmp/railhead/notes"}]
    job = make_job("in-s3", cluster.image, code=CODE, run=run, envFrom=env_from, env=notes)
    cluster.apply(secret, with_config(job, epochs=6, seconds=0.2))
    committed = lambda: (cluster.status("in-s3").get("checkpoint") or {}).get("index", -1) >= 3  # noqa: E731
    wait_until("four commits", committed, tell=lambda: cluster.tell("in-s3"))
    exposed = read_all(cluster, "in-s3")
    head = cluster.head_pod("in-s3")
    cluster("delete", "pod", head, "--grace-period=0", "--force")
    status = cluster.wait_end("in-s3")
    assert status["phase"] == "Succeeded", cluster.tell("in-s3")
    assert status["attempt"] == 2
    assert status["resumedFrom"]["uri"].startswith("s3://")
    log = cluster.log(status["head"]["pod"])
    assert "rank 0 epoch 5" in log and "rank 0 epoch 3" not in log
    exposed += read_all(cluster, "in-s3")
    assert s3.host in exposed, "the job was searched"
    for credential in s3.environment.values():
        assert credential not in exposed
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    epochs = {}
    for which in ("checkpoint", "bestCheckpoint"):
        with ray.train.Checkpoint(status[which]["uri"]).as_directory() as folder:
            epochs[which] = json.loads(Path(folder, "epoch.json").read_text())
    assert epochs == {"checkpoint": 5, "bestCheckpoint": 0}
    assert (status["checkpoint"]["index"], status["bestCheckpoint"]["index"]) == (5, 0)
    assert status["bestCheckpoint"]["attempt"] == 1
    kept = {key.split("/")[1] for key in s3.list("runs") if key.count("/") > 1 and "/.railhead/" not in key}
    assert len(kept) == 3, "the two best and the newest"
    history = read_metrics(status["runURI"])
    assert [each["metrics"]["epoch"] for each in history.records if each["attempt"] == 2] == [4, 5]
    assert (history.skipped, history.dropped) == (0, 0)
    cluster.delete_job("in-s3")


@pytest.mark.slow
def test_the_example_for_s3_needs_only_credentials_and_a_bucket(cluster: Cluster, s3: S3) -> None:
    secret, job = yaml.safe_load_all((EXAMPLES / "digits-s3.yaml").read_text())
    assert secret["stringData"].keys() == s3.environment.keys()
    secret["stringData"] = s3.environment
    job["spec"] |= {"image": cluster.image, "imagePullPolicy": "IfNotPresent"}
    job["spec"]["run"]["storagePath"] = s3.build_uri("digits")
    cluster.apply(secret, job)
    status = cluster.wait_end("digits-s3")
    assert status["phase"] == "Succeeded", cluster.tell("digits-s3")
    assert float(status["progress"]["metrics"]["accuracy"]) >= 0.95
    assert [key for key in s3.list("digits") if key.endswith("/state.pt")], "its checkpoints are in the bucket"
    cluster.delete_job("digits-s3")
