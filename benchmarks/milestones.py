"""When a run reached which milestone, read afterwards from the files that Ray wrote.

Ray's files are the same whoever started it, so the same milestones measure both
ways of starting. Times are seconds since the epoch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

STORED = "the API server has the job"
PODS = "all pods are created"
CONTAINERS = "all containers run"
GCS = "Ray's control store listens"
HEAD_NODE = "Ray's head node is registered"
CONNECTED = "the driver is connected to Ray"
WORKER_NODES = "all worker nodes are registered"
CONTROLLER = "Ray Train's controller runs"
GROUP = "the worker group runs"
FIRST_REPORT = "first report"
LAST_REPORT = "last report"
DRIVER_END = "the driver has ended"
SUCCEEDED = "the watch shows Succeeded"
ORDER = (
    STORED, PODS, CONTAINERS, GCS, HEAD_NODE, CONNECTED, WORKER_NODES,
    CONTROLLER, GROUP, FIRST_REPORT, LAST_REPORT, DRIVER_END, SUCCEEDED,
)  # fmt: skip

_GCS_LINE = re.compile(r"\[(\S+ \S+) .*(server started, listening|Registering new node)")
_CONNECTED_LINE = re.compile(r"^([\d-]+ [\d:,]+)\s.*Connected to Ray cluster", re.MULTILINE)
_CHECKPOINT_NAME = re.compile(r"Checkpoint successfully created at: .*checkpoint_([\d_.-]+\d)")


class Incomplete(RuntimeError):
    """Ray's files lack a milestone; the message says which."""


def read_milestones(ray_logs: Path, *, driver_log: str, run_folder: Path) -> dict[str, float]:
    """The milestones of one run in Ray's files.

    Args:
        ray_logs: the logs of the head's Ray session.
        driver_log: the driver's output; Ray adds the ranks' lines to it.
        run_folder: where the run's newest checkpoints are. Their names are the times of their reports.
    """
    connected = [parse_time(found[1]) for found in _CONNECTED_LINE.finditer(driver_log)]
    reported = [parse_time(found[1]) for found in _CHECKPOINT_NAME.finditer(driver_log)]
    kept = [parse_time(folder.name) for folder in run_folder.glob("checkpoint_2*")]
    if not connected or not reported or not kept:
        raise Incomplete(f"{len(connected)} connections, {len(reported)} reports logged, {len(kept)} checkpoints kept")
    return {
        **dict(_read_gcs(ray_logs)),
        **dict(_read_controller(ray_logs)),
        CONNECTED: connected[0],
        FIRST_REPORT: min(reported),
        LAST_REPORT: max(kept),
    }


def _read_gcs(ray_logs: Path) -> Iterator[tuple[str, float]]:
    nodes = []
    for line in (ray_logs / "gcs_server.out").read_text(errors="replace").splitlines():
        found = _GCS_LINE.match(line)
        if found and "listening" in found[2]:
            yield GCS, parse_time(found[1])
        elif found:
            nodes.append(parse_time(found[1]))
    if len(nodes) < 2:
        raise Incomplete(f"{len(nodes)} Ray nodes were registered")
    yield HEAD_NODE, min(nodes)
    yield WORKER_NODES, max(nodes)


def _read_controller(ray_logs: Path) -> Iterator[tuple[str, float]]:
    [log] = (ray_logs / "train").glob("ray-train-app-controller-*.log")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    yield CONTROLLER, lines[0]["timestamp_ns"] / 1e9
    starts = [line["timestamp_ns"] for line in lines if line["message"].startswith("Started training worker group")]
    if not starts:
        raise Incomplete("the worker group never ran")
    yield GROUP, starts[0] / 1e9


def parse_time(text: str) -> float:
    """Local time, the largest unit first, with any separators; the seventh number is a fraction."""
    numbers = re.findall(r"\d+", text)
    return datetime(*map(int, numbers[:6])).timestamp() + float(f"0.{numbers[6]}")  # type: ignore[arg-type]
