"""A worker pod whose network is cut: nothing deletes it, and for its kubelet it is Running."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.conftest import echo
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job, read_starts, with_config
from tests.e2e.rig import find_first_process


@pytest.mark.slow
@pytest.mark.node
def test_a_worker_pod_without_network_is_replaced_as_soon_as_the_driver_reports_it(cluster: Cluster) -> None:
    """Kubernetes would wait for five minutes: the toleration for an unreachable node."""
    if cluster.volume_folder is None:
        pytest.skip("only the pods of a node on this machine have a network that the test can cut")
    cluster.apply(with_config(make_job("severed", cluster.image), epochs=50, seconds=0.5))
    committed = lambda: (cluster.status("severed").get("checkpoint") or {}).get("index", -1) >= 2  # noqa: E731
    wait_until("three commits", committed, tell=lambda: cluster.tell("severed"))
    head = cluster.head_pod("severed")
    [lost] = [name for name in cluster.pod_names("severed") if name.endswith("-w1-0")]
    enter = ("nsenter", "--target", str(find_first_process(lost)), "--net")
    cut_at = time.monotonic()
    subprocess.run([*enter, "ip", "link", "set", "eth0", "down"], check=True)
    [replaced] = wait_until("the replacement", lambda: find_replacements(cluster), tell=lambda: cluster.tell("severed"))
    echo(f"severed: replaced {time.monotonic() - cut_at:.0f} s after its network was cut")
    assert replaced.endswith("-w1-1")
    status = cluster.wait_end("severed")
    assert status["phase"] == "Succeeded", cluster.tell("severed")
    assert (status["attempt"], status["round"], status["head"]["pod"]) == (1, 1, head)
    assert status["workerLosses"]["rounds"] == 1 and not (status.get("restarts") or {}).get("application")
    starts = read_starts(cluster, "severed")
    assert starts[0] == 0 and len(starts) >= 2 and min(starts[1:]) >= 3, starts
    cluster.delete_job("severed")


def find_replacements(cluster: Cluster) -> list[str]:
    return [name for name in cluster.pod_names("severed") if name.endswith("-1") and "-w" in name]
