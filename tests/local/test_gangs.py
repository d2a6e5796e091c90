"""Two jobs that compete for GPUs in local mode with its gang scheduler on: the commands of the page, step by step."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from railhead.api import names
from railhead.local.control_plane.binaries import KUBERNETES_VERSION
from railhead.local.install import Kubectl
from railhead.local.session import Session
from tests.local.test_session import call, session
from tests.waiting import wait_until

__all__ = ["session"]
pytestmark = pytest.mark.slow
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "gangs.md"
BLOCKS = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
JOBS = ("first", "second")


def list_items(kubectl: Kubectl, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", kind, "-o", "json"))["items"]
    return found


def count_pods(kubectl: Kubectl) -> dict[str, tuple[int, int]]:
    """By job, how many pods it has, and how many of them have a node."""
    pods = list_items(kubectl, "pods")
    by_job = {job: [pod for pod in pods if pod["metadata"]["labels"][names.LABEL_JOB_NAME] == job] for job in JOBS}
    return {job: (len(own), sum("nodeName" in pod["spec"] for pod in own)) for job, own in by_job.items()}


def test_one_of_two_jobs_trains_while_the_other_holds_no_gpu_and_then_has_its_turn(
    session: Session, pytestconfig: pytest.Config
) -> None:
    [up, apply] = BLOCKS.findall(PAGE.read_text())
    assert up.startswith("railhead local up ")
    code, out = call(*up.split()[2:], session=session)
    assert code == 0, out
    path = f"{session.bin}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(session.kubeconfig), "PATH": path}
    done = subprocess.run(["bash", "-e", "-c", apply], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    served = json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    assert f"{served}.".startswith(f"v{pytestconfig.getoption('--kubernetes') or KUBERNETES_VERSION}.")
    wait_until("a gang with all its nodes", lambda: (3, 3) in count_pods(kubectl).values(), seconds=120)
    wait_until("pods of both", lambda: set(count_pods(kubectl).values()) == {(3, 3), (3, 0)}, seconds=60)

    def list_phases() -> list[str]:
        phases = [str(job["status"].get("phase")) for job in list_items(kubectl, "trainjobs")]
        assert phases.count("Running") < 2, "both train on three GPUs"
        return phases

    wait_until("both have trained", lambda: list_phases() == ["Succeeded", "Succeeded"], seconds=300)
