"""What somebody who starts Ray by hand gives `ray start`: literals, which Railhead's own settings do not change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from railhead.contract.job_input import JobInput

SHARED = {"RAY_AUTH_MODE": "token", "RAY_TRAIN_V2_ENABLED": "1", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class HandSettings:
    """Environment and arguments of `ray start`, beside addresses, folders and the resources of the job's nodes."""

    environment: Mapping[str, str]
    head: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    has_object_store_sizes: bool = False

    def build_environment(self, job: JobInput) -> dict[str, str]:
        elastic = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20"} if job.is_elastic and self.environment else {}
        return {**SHARED, **self.environment, **elastic}

    def build_node(self, job: JobInput, role: str) -> list[str]:
        node = job.ray_node.head if role == "head" else job.ray_node.worker
        arguments = ["--num-cpus=0" if role == "head" else f"--num-cpus={node.cpus}"]
        arguments.append(f"--num-gpus={0 if role == 'head' else node.gpus}")
        if node.resources:
            arguments.append(f"--resources={json.dumps(node.resources, sort_keys=True)}")
        if self.has_object_store_sizes and node.object_store_bytes:
            arguments.append(f"--object-store-memory={node.object_store_bytes}")
        return [*arguments, *(self.head if role == "head" else self.worker)]


# As Railhead set them in commit 733a7c7: the fast settings of somebody who knows Ray well.
TUNED = HandSettings(
    {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TRAIN_METRICS_ENABLED": "0",
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
        "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
        "RAY_agent_register_timeout_ms": "180000",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    },
    head=("--include-dashboard=false", "--no-monitor"),
    has_object_store_sizes=True,
)
# Ray as it comes; the usage statistics would ask the internet.
RAYS_DEFAULTS = HandSettings({"RAY_USAGE_STATS_ENABLED": "0"})
