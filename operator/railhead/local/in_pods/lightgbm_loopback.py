"""LightGBM's list of machines, with addresses that LightGBM recognises.

Each pod of a local cluster has its own address in 127.0.0.0/8. LightGBM finds itself in the list
by the addresses of the machine's interfaces, of which only 127.0.0.1 is a loopback one, and otherwise
fails with "Machine list file doesn't contain the local machine". The ports in the list are
unique on the machine, so 127.0.0.1 and the port identify each worker just as well.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.train.v2._internal.execution.callback import WorkerGroupCallback


class LoopbackCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Runs in Ray Train's controller, which makes the list; the node names it in RAY_TRAIN_CALLBACKS."""

    def before_worker_group_start(self, worker_group_context: object) -> None:
        config: Any = sys.modules.get("ray.train.lightgbm.config")
        if config is not None:
            config.build_address = build_loopback_address


def build_loopback_address(address: str, port: int) -> str:
    return f"127.0.0.1:{port}"
