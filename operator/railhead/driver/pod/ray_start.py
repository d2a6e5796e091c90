"""The arguments and the environment of `ray start`, for both roles. Pure.

The pod's env can override each of the settings for speed, but not those that security or the driver depends on.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from typing import Mapping, Optional

from railhead.contract.job_input import JobInput, RayNode
from railhead.driver.container.hosts import write_address
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.user_code import WORKING_FOLDER

# Ray's own health checks keep their patient defaults: a starved raylet must not look dead.
DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",  # nothing scrapes them, and they slow the start
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # one more actor to start, for worker.drainSeconds only
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # without the watcher nothing uses the wait
    "RAY_DEDUP_LOGS": "0",  # every line of every rank
    "RAY_COLOR_PREFIX": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # otherwise each line of `print` appears twice, also as a log record
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",  # a log is not a terminal
    "RAY_process_group_cleanup_enabled": "1",  # what a rank has started ends with it, and frees its GPU
    "RAY_task_events_report_interval_ms": "0",  # each poll of a worker would be one; nothing reads them
    "RAY_agent_register_timeout_ms": "180000",  # for the imports of a node's agents on a busy machine
}
# For spec.ray.dashboard, in place of DEFAULTS.
DASHBOARD = {
    "RAY_task_events_report_interval_ms": "1000",  # Ray's own; without them the dashboard has no tasks
    "RAY_task_events_max_num_task_in_gcs": "10000",  # polls of large groups would fill Ray's default of 100,000
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "180",  # for its imports on a busy machine; nothing waits for it
    # No port has this number, so that the dashboard cannot serve its own metrics at all addresses without
    # authentication. Newer Rays also take -1 for no port, which Ray 2.52 ignores.
    "DASHBOARD_METRIC_PORT": "65536",
}
# The operator decides who may talk to a job's Ray, where its parts are and what its nodes have. An image or envFrom may
# set these variables for the same, of which some outrank the operator's: RAY_AUTH_TOKEN the file with the token.
# docs/internals/ray-train.md has a decision for each variable of that kind that Ray reads.
OWN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")
REMOVED_PREFIXES = ("RAY_AUTH_", "RAY_OVERRIDE_", "RAY_REDIS_")
REMOVED = (
    "RAY_ADDRESS",
    "RAY_API_SERVER_ADDRESS",
    "RAY_ENABLE_GCS_LEADER_ELECTION",
    "RAY_ENABLE_K8S_TOKEN_AUTH",
    "RAY_GCS_SERVER_PORT",
    "RAY_enable_cluster_auth",
    "RAY_external_storage_namespace",
    "RAY_gcs_storage",
    "RAY_gcs_storage_path",
    "RAY_grpc_enable_http_proxy",
)
# Read by what decides in Ray Train about the health of nodes, as Ray's own plan for it names it.
NODE_LABEL = "ray.io/k8s-node-name"
_LABEL_VALUE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?")
FASTEST_POLL_SECONDS = 0.2
SLOWEST_POLL_SECONDS = 2.0
POLLS_PER_SECOND = 100  # of single workers: each is a call from the head, for as long as the job runs


def build_ray_environment(environment: Mapping[str, str], *, job: JobInput, pod: Pod, folder: str) -> dict[str, str]:
    """Returns the environment of Ray's processes and the driver; `folder` is the container's working directory."""
    result = {name: value for name, value in environment.items() if not is_removed(name)}
    dashboard = DASHBOARD if job.has_dashboard else {}
    for name, value in {**DEFAULTS, **dashboard, **plan_drain(job.drain_seconds)}.items():
        result.setdefault(name, value)
    result.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", str(compute_poll_seconds(job.scaling.num_workers)))
    if job.is_elastic:
        # The group can be smaller, and need not insist on a node that was just lost.
        result.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(20 + job.scaling.num_workers // 10))
    if job.collective_timeout_seconds is not None:
        result.setdefault("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", str(job.collective_timeout_seconds))
    result.setdefault(WORKING_FOLDER, folder)
    # The bundle comes first: Python runs only the first `sitecustomize`, and the bundle's runs the image's as well.
    result["PYTHONPATH"] = ":".join(p for p in (pod.bundle, result.get("PYTHONPATH", "")) if p)
    result["PYTHONUNBUFFERED"] = "1"
    return result


def is_removed(name: str) -> bool:
    """Returns whether Ray must not see this variable of the container."""
    return name not in OWN and (name in REMOVED or name.startswith(REMOVED_PREFIXES))


def plan_drain(seconds: int) -> dict[str, str]:
    """Makes a node announce on SIGTERM that it is leaving, and Ray Train notifies the ranks; empty for 0 seconds."""
    if not seconds:
        return {}
    return {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(seconds),
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "1",
        "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "1",  # Ray's default of 5 s is a large part of a short notice
    }


def plan_hang_detector(job: JobInput, *, client: Optional[str]) -> dict[str, str]:
    """Switches on Ray's own detector, which asks NCCL on the workers by its program `client`, and only logs."""
    if not (client and job.scaling.use_gpu):
        return {}
    return {"RAY_TRAIN_ENABLE_NCCL_HANG_DETECTOR": "1", "RAY_TRAIN_NCCL_RAS_ACTION": "observe"}


def compute_poll_seconds(workers: int) -> float:
    """Returns the seconds between two polls of the workers: a report arrives one poll later at most."""
    return min(max(FASTEST_POLL_SECONDS, workers / POLLS_PER_SECOND), SLOWEST_POLL_SECONDS)


def build_head_command(pod: Pod, job: JobInput) -> list[str]:
    """Returns the command for Ray's head, without CPUs and GPUs: only the control plane and the driver run there."""
    return [
        *_build_start(pod, replace(job.ray_node.head, cpus=0, gpus=0)),
        "--head",
        f"--port={pod.head_port}",
        "--include-dashboard=false",
        # Without Ray's autoscaler: the operator makes the pods.
        "--no-monitor",
    ]


def build_worker_command(pod: Pod, job: JobInput, *, head_address: str) -> list[str]:
    return [
        *_build_start(pod, job.ray_node.worker),
        f"--address={write_address(head_address, pod.head_port)}",
        *(["--include-log-monitor=false"] if job.forward_logs == "None" else []),
    ]


def name_kubernetes_node(name: str) -> dict[str, str]:
    """Returns the label by which policies that judge a node's health find the Kubernetes node of a Ray node.

    Ray does not start with a value that is no label's; then, as without the label, a policy has no evidence.
    """
    if _LABEL_VALUE.fullmatch(name):
        return {NODE_LABEL: name}
    return {}


def _build_start(pod: Pod, node: RayNode) -> list[str]:
    command = [
        sys.executable,
        pod.bundle,
        "ray",
        "start",
        f"--node-ip-address={pod.ip}",
        f"--temp-dir={pod.temp}",
        f"--num-cpus={node.cpus}",
        f"--num-gpus={node.gpus}",
        "--block",
    ]
    if node.resources:
        command.append(f"--resources={json.dumps(node.resources, sort_keys=True)}")
    labels = {**node.labels, **name_kubernetes_node(pod.node)}
    if labels:
        command.append("--labels=" + ",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    if node.object_store_bytes:
        command.append(f"--object-store-memory={node.object_store_bytes}")
    return command
