"""A storage path that one worker pod does not share, with a real Ray and a private mount in that pod."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from railhead.contract.failure import FailureClass
from tests.ray.pods import Pods, make_job

TRAINING = "def train_func():\n    print('train_func runs', flush=True)\n"
PRIVATE_MOUNT = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')


def has_private_mounts(folder: Path) -> bool:
    tried = subprocess.run([*PRIVATE_MOUNT, str(folder), "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.slow  # tests/unit/driver/train_controller/test_shared_storage_step.py has each answer of a worker
def test_a_path_that_a_worker_does_not_share_is_rejected_before_training(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    if not has_private_mounts(runs):
        pytest.skip("only root may mount on this machine; tests/e2e checks the same on a real node")
    job = make_job(framework="Python")
    with Pods(tmp_path, job, source={"user.py": TRAINING}, storage=str(runs)) as pods:
        pods.start(workers=1)
        pods.start_worker(1, wrap=[*PRIVATE_MOUNT, str(runs)])
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.reason == "StorageNotShared"
        assert (
            f"run.storagePath {runs}: the head pod wrote a file there that worker pod w1-0 does not" in outcome.message
        )
        assert "train_func runs" not in pods.read_log()
    assert not list(runs.glob("*/.railhead-*")), "nothing is left in the user's storage"
