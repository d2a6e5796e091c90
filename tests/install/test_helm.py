"""helm on a cluster with RBAC: the operator is a pod with its own service account; jobs survive helm's actions."""

from __future__ import annotations

import time

import pytest
import yaml

from railhead.local.install import KubectlFailed
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job, with_config
from tests.install.release import CRD, Releases

HOME = "railhead-system"
NAME = "railhead-operator"
# Trains until the test stops it, so no test has to guess how long the rest takes.
STEADY = """
import json, os, tempfile, time
import ray.train


def train_func(config):
    os.makedirs(os.environ["NOTES"], exist_ok=True)
    epoch = 0
    while not os.path.exists(os.path.join(os.environ["NOTES"], "stop")):
        time.sleep(0.3)
        with tempfile.TemporaryDirectory() as folder:
            json.dump(epoch, open(os.path.join(folder, "epoch.json"), "w"))
            ray.train.report({"epoch": epoch}, checkpoint=ray.train.Checkpoint.from_directory(folder))
        epoch += 1
"""
ONE_WORKER = {"numWorkers": 1, "resourcesPerWorker": {"cpu": "200m", "memory": "512Mi"}}


# .ci/run runs these on a real node if the machine allows one.
pytestmark = [pytest.mark.node, pytest.mark.slow]


def pods_of(jobs: Cluster, name: str) -> dict[str, tuple[str, list[int]]]:
    """Name -> uid and its containers' restart counts."""
    return {
        str(p["metadata"]["name"]): (
            str(p["metadata"]["uid"]),
            [c["restartCount"] for c in p["status"].get("containerStatuses", [])],
        )
        for p in jobs.pods(name)
    }


def wait_for_report(jobs: Cluster, name: str) -> None:
    """Waits until the operator accepts another report."""
    before = jobs.status(name)["progress"]["reports"]
    tell = lambda: jobs.tell(name)  # noqa: E731
    wait_until("another report", lambda: jobs.status(name)["progress"]["reports"] > before, tell=tell)


def arguments_of(releases: Releases) -> list[str]:
    [container] = releases.deployment(NAME, HOME)["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def test_a_job_survives_install_upgrade_rollback_and_uninstall(
    releases: Releases, capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.monotonic()
    releases.install("railhead", HOME)
    seconds = time.monotonic() - start
    assert releases.deployment(NAME, HOME)["status"]["readyReplicas"] == 1  # --wait works
    with capsys.disabled():
        print(f"\nfrom helm install to a ready operator: {seconds:.1f} s")
    [operator] = releases.operator_pods(HOME)
    assert operator["spec"]["serviceAccountName"] == NAME
    jobs = releases.make_namespace("jobs")

    jobs.apply(make_job("steady", jobs.image, code=STEADY, scaling=ONE_WORKER))
    jobs.wait_phase("steady", "Running")
    wait_until("a checkpoint", lambda: jobs.status("steady").get("checkpoint"), tell=lambda: jobs.tell("steady"))
    pods = pods_of(jobs, "steady")
    assert len(pods) == 2

    releases(
        "upgrade", "railhead", str(releases.chart), "-n", HOME, "--reuse-values", "--set", "concurrency=3", "--wait"
    )
    assert "--concurrency=3" in arguments_of(releases)
    wait_for_report(jobs, "steady")
    releases("rollback", "railhead", "1", "-n", HOME, "--wait")
    assert "--concurrency=40" in arguments_of(releases)
    wait_for_report(jobs, "steady")
    assert pods_of(jobs, "steady") == pods

    releases.uninstall("railhead", HOME)
    wait_until("no operator", lambda: not releases.operator_pods(HOME))
    assert releases.deployment(NAME, HOME) == {}
    crd = yaml.safe_load(releases.kubectl("get", "crd", CRD, "-o", "yaml"))
    assert "deletionTimestamp" not in crd["metadata"]
    assert "deletionTimestamp" not in jobs.job("steady")["metadata"]
    assert pods_of(jobs, "steady") == pods  # it continues without an operator

    releases.install("railhead", HOME)
    wait_for_report(jobs, "steady")
    jobs.make_file("runs", "notes-steady/stop")
    status = jobs.wait_end("steady")
    assert status["phase"] == "Succeeded", jobs.tell("steady")
    assert status["attempt"] == 1
    assert not any(status.get("restarts", {}).values())


def can_i(releases: Releases, account: str, *question: str) -> bool:
    try:
        return releases.kubectl("auth", "can-i", *question, "--as", f"system:serviceaccount:{account}").strip() == "yes"
    except KubectlFailed:  # exits 1 for "no"
        return False


def test_a_namespaced_release_does_not_touch_other_namespaces(releases: Releases) -> None:
    mine, others = releases.make_namespace("team-a"), releases.make_namespace("team-b")
    releases.install("team", "team-a", watchNamespaces=["team-a"])
    others.apply(make_job("theirs", others.image, scaling=ONE_WORKER))
    mine.apply(with_config(make_job("mine", mine.image, scaling=ONE_WORKER), epochs=1))
    assert mine.wait_end("mine")["phase"] == "Succeeded", mine.tell("mine")
    mine.delete_job("mine")
    theirs = others.status("theirs")
    assert theirs["observedGeneration"] == -1
    assert "phase" not in theirs
    assert others("get", "pods,services,secrets,configmaps", "-l", "app.kubernetes.io/managed-by=railhead") == ""
    account = "team-a:team-railhead-operator"
    assert can_i(releases, account, "create", "pods", "-n", "team-a")
    assert can_i(releases, account, "create", "tokenreviews.authentication.k8s.io")
    for question in (("list", "pods"), ("create", "secrets"), ("list", "trainjobs.railhead.dev")):
        assert not can_i(releases, account, *question, "-n", "team-b")
        assert not can_i(releases, account, *question, "--all-namespaces")
