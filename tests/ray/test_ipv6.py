"""A job whose pods have IPv6 addresses only, with real Ray: the parts of Ray join, and both ranks train."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from tests.ray.pods import Pods, make_job

TRAIN = """
import socket
import torch
import torch.distributed as dist
from ray import train

def train_func(config):
    sum_of_ranks = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(sum_of_ranks)
    train.report({"sum": sum_of_ranks.item()})
"""


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_pods_with_ipv6_addresses_train_together(tmp_path: Path) -> None:
    job = make_job(train_func="train:train_func")
    with Pods(tmp_path, job, source={"train.py": TRAIN}, address="::1") as pods:
        pods.start()
        assert pods.wait_ended(timeout=240) == SUCCEEDED_CODE, pods.read_log()
        outcome = pods.read_outcome()
        assert pods.reports[-1]["joined"] == 2
        assert "starting Ray's head at [::1]:" in pods.read_log()
        assert "joining Ray's head at [::1]:" in pods.read_log("w1-0")
    assert float((outcome.metrics or {})["sum"]) == 3.0
