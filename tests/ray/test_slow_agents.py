"""A node whose agents start more slowly than Ray's timeout: on a busy machine, or with a cold image."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from tests.ray.pods import Pods, make_single_job

# Ray waits 15 s. Every Python process of the pods starts with this file.
SLOW = """
import sys, time
if any(part in " ".join(sys.orig_argv) for part in ("dashboard/agent.py", "runtime_env/agent/main.py")):
    time.sleep(20)
"""
CODE = """
import ray.train

def train_func(config):
    ray.train.report({"done": 1})
"""


@pytest.mark.slow
def test_slow_agents_cost_no_pod(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    with Pods(tmp_path / "pods", make_single_job(), source={"user.py": CODE}) as pods:
        pods.start(workers=1, env={"PYTHONPATH": str(tmp_path)})
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        assert pods.read_outcome().metrics == {"done": "1"}
