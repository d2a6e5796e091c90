"""Slow ranks with a real Ray: two ranks that wait for each other in each step, and one of them computes more slowly."""

from __future__ import annotations

import socket
import zipfile
from pathlib import Path

import pytest

from railhead.contract.report import SlowRank
from tests.ray.pods import Pods, make_job, share_pod

# Both ranks leave the loop after the same step.
UNEVEN = """
import pathlib, time
import ray.train, torch, torch.distributed
from railhead.training import compute

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    is_seen = torch.zeros(1)
    while not is_seen:
        with compute():
            time.sleep(0.01 if rank == 0 else 0.02)
        is_seen = torch.tensor(float(pathlib.Path(config["seen"]).exists()))
        torch.distributed.all_reduce(is_seen, op=torch.distributed.ReduceOp.MIN)
    ray.train.report({"done": 1})
"""
SHORTER = {
    "railhead/driver/train_controller/slow_rank_watch.py": ("WINDOW_SECONDS = 60.0", "WINDOW_SECONDS = 0.5"),
    "railhead/driver/train_controller/heartbeat_thread.py": ("HEARTBEAT_SECONDS = 10.0", "HEARTBEAT_SECONDS = 0.25"),
}


def shorten_windows(bundle: Path) -> None:
    """Ten windows then take five seconds in place of ten minutes."""
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    for name, (old, new) in SHORTER.items():
        assert files[name].count(old) == 1, old
        files[name] = files[name].replace(old, new)
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.mark.slow  # tests/unit/driver/train_controller/test_slow_rank_watch.py has who is named, and when
def test_the_rank_that_computes_more_slowly_is_named_although_all_steps_take_as_long(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    job = share_pod(make_job(train_loop_config={"seen": str(seen)}))
    with Pods(tmp_path, job, source={"user.py": UNEVEN}) as pods:
        shorten_windows(tmp_path / "railhead.pyz")
        pods.start(workers=1)
        pods.wait_until(lambda: any(report["slow_ranks"] for report in pods.reports))
        seen.touch()
        assert pods.wait_ended(timeout=120) == 0, pods.read_log()
        named = [SlowRank(**each) for report in pods.reports for each in report["slow_ranks"]]
    assert {(each.rank, each.pod) for each in named} == {(1, socket.gethostname())}
    assert len({each.since for each in named}) == 1
    assert all(0.3 < float(each.score) < 0.75 for each in named)
