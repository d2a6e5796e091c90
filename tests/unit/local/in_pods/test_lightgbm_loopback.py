"""LightGBM's machines on a local cluster, as Ray Train's own backend lists them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from railhead.local.in_pods.lightgbm_loopback import LoopbackCallback


class Group:
    """Two workers that note their network parameters."""

    def __init__(self) -> None:
        self.machines: list[str] = []

    def __len__(self) -> int:
        return 2

    def execute(self, function: object) -> list[tuple[str, int]]:
        return [("127.3.0.10", 4001), ("127.3.0.11", 4002)]

    def execute_single_async(self, rank: int, function: object, count: int, port: int, machines: str) -> None:
        self.machines.append(machines)


def test_lightgbm_finds_itself_among_loopback_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    # It imports lightgbm and scikit-learn. At the top, each process that collects the tests would import them.
    from ray.train.lightgbm import config

    monkeypatch.setattr(config, "ray", SimpleNamespace(get=lambda _: None))
    monkeypatch.setattr(config, "build_address", config.build_address)
    LoopbackCallback().before_worker_group_start(None)
    group = Group()
    config.LightGBMConfig().backend_cls().on_training_start(group, config.LightGBMConfig())
    assert group.machines == ["127.0.0.1:4001,127.0.0.1:4002"] * 2
