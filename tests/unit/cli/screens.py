"""The commands that read, without a cluster: their output for fixed jobs, at a width of the terminal or in a pipe.

`python -m tests.unit.cli.screens` writes the golden files again; look at their difference before you commit it.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.cli import doctor, jobs, read
from railhead.cli.output import Console
from railhead.cli.parser import build_parser
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.exit_codes import ExitCode
from railhead.json_object import Object
from railhead.kube.errors import Denied
from tests.unit.client.jobs import (
    make_condition,
    make_event,
    make_failed,
    make_job,
    make_pod,
    make_running,
    make_snapshot,
    make_waiting,
    make_waiting_container,
)
from tests.unit.client.ready_cluster import Answers, FixedClient, make_deployment, make_node

GOLDEN = Path(__file__).parent / "golden"
WIDTHS: dict[str, int | None] = {"80": 80, "120": 120, "pipe": None}
URI = "s3://bucket/runs/digits-1a2b3c4d/checkpoint_2026-11-25_11-40-00.000123"


def _train() -> Object:
    progress = {
        "percentComplete": 42,
        "remaining": "3h20m",
        "step": 4200,
        "totalSteps": 10000,
        "stepsPerSecond": "1.25",
        "metrics": {"loss": "0.3125", "epoch": "4"},
        "updateTime": "2026-11-25T11:59:50Z",
    }
    return make_running(
        spec={"scaling": {"numWorkers": 4, "workersPerPod": 2, "useGPU": True}},
        progress=progress,
        workers={"desired": 2, "ready": 2, "joined": 2},
        head={"pod": "digits-1a2b3c-2-head", "node": "cpu-1"},
        checkpoint={"uri": URI, "index": 4, "time": "2026-11-25T11:40:00Z"},
        runURI="s3://bucket/runs/digits-1a2b3c4d",
        restarts={"disruptions": 1},
        goodput={
            "percent": "93.1",
            "wallSeconds": 5985,
            "productiveSeconds": 5572,
            "gpuSeconds": 45000,
            "lostGPUSeconds": 3105,
            "lostSeconds": {"starting": 95, "retrained": 310, "podsPending": 7, "other": 1},
        },
        attempts=[
            {
                "number": 1,
                "startTime": "2026-11-25T10:00:01Z",
                "completionTime": "2026-11-25T10:30:00Z",
                "class": "Hardware",
                "reason": "GPUFailed",
                "node": "gpu-7",
                "rounds": 1,
            },
            {"number": 2, "startTime": "2026-11-25T10:30:05Z", "runningTime": "2026-11-25T10:31:00Z"},
        ],
        avoidedNodes=[
            {
                "name": "gpu-7",
                "reason": "GPUFailed",
                "since": "2026-11-25T10:30:00Z",
                "expirationTime": "2026-11-25T12:30:00Z",
            }
        ],
    )


def _save_too_rarely() -> Object:
    """A job of 1,024 GPUs with a checkpoint every two hours."""
    return make_running(
        spec={"scaling": {"numWorkers": 1024, "workersPerPod": 8, "useGPU": True}},
        progress={"updateTime": "2026-11-25T11:59:50Z"},
        workers={"desired": 128, "ready": 128, "joined": 128},
        checkpoint={"uri": URI, "index": 9, "time": "2026-11-25T11:40:00Z"},
        goodput={
            "percent": "97.9",
            "wallSeconds": 73500,
            "productiveSeconds": 72000,
            "gpuSeconds": 73_700_000,
            "lostSeconds": {"starting": 90, "retrained": 1200, "restoring": 90, "checkpointing": 120},
            "interruptions": {"Hardware": 1},
        },
    )


NO_NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No victims."
HOSTILE = "line one\x1b[2J\x1b]0;owned\x07\nline \u202etwo"
JOBS: dict[str, Object] = {
    "digits": _train(),
    "waits": make_waiting("Unschedulable", NO_NODE),
    "a-job-with-a-name-that-is-quite-long-01": make_failed("Application", "TrainFunctionRaised", HOSTILE),
    "new": make_job("new"),
    "rests": make_job("rests", phase="Suspended", conditions=[make_condition("Suspended", "Suspended")]),
}
for _name, _job in JOBS.items():
    _job["metadata"]["name"] = _name
SLOW: dict[str, Object] = {"rare-saves": _save_too_rarely()}
SLOW["rare-saves"]["metadata"]["name"] = "rare-saves"
PODS: dict[str, list[Object]] = {
    "waits": [make_pod("waits-1a2b3c-1-w0-0", slot=0, **make_waiting_container("ContainerCreating"))]
}
EVENTS = {"digits": [make_event("Started", "Training runs from checkpoint 3", count=2)]}

UNREADY = Answers(
    objects={
        "deployments": [make_deployment(0)],
        "trainjobs": list(JOBS.values()),
        "leases": Denied(403, "Forbidden", 'leases.coordination.k8s.io is forbidden: User "guest" cannot list it'),
        "nodes": [make_node("cpu-1"), make_node(HOSTILE, **{"nvidia.com/gpu.present": "true"})],
    },
    denied=(("trainjobs", "create"), ("trainjobs", "delete")),
    level="privileged",
)


def snapshot(name: str) -> JobSnapshot:
    return make_snapshot({**JOBS, **SLOW}[name], PODS.get(name, ()), EVENTS.get(name, ()))


@dataclass(frozen=True)
class FixedCluster:
    """What the commands use of a cluster."""

    scope: str | None

    namespace = "team-a"

    @property
    def client(self) -> FixedClient:
        return FixedClient(UNREADY)

    @property
    def place(self) -> str:
        return "namespace team-a"

    async def list_jobs(self, selector: str, read: Callable[[Object], Any]) -> list[Any]:
        return [read(job) for job in JOBS.values()]

    async def read_snapshot(self, name: str) -> JobSnapshot:
        return snapshot(name)


RUNS = {
    "list": jobs.do_list,
    "status": read.do_status,
    "why": read.do_why,
    "timeline": read.do_timeline,
    "doctor": doctor.do_doctor,
    "top": jobs.do_top,
}
CODES = {"doctor": ExitCode.FAILED}  # of the others: 0


def show(arguments: list[str], width: int | None, *, is_terminal: bool = False) -> str:
    """Returns what the command prints."""
    options = build_parser().parse_args(arguments)
    stream = io.StringIO()
    cluster: Any = FixedCluster(None if getattr(options, "all_namespaces", False) else "team-a")
    run = RUNS[arguments[0]](options, cluster, Console(stream, width=width, is_terminal=is_terminal))
    assert asyncio.run(run) == CODES.get(arguments[0], ExitCode.DONE)
    return stream.getvalue()


SCREENS = {
    "list": ["list"],
    "list-everywhere": ["list", "-A"],
    "list-wide": ["list", "-o", "wide"],
    "status-training": ["status", "digits"],
    "status-waiting": ["status", "waits"],
    "why-waiting": ["why", "waits"],
    "why-rare-saves": ["why", "rare-saves"],
    "why-failed": ["why", "a-job-with-a-name-that-is-quite-long-01"],
    "timeline": ["timeline", "digits"],
    "doctor": ["doctor"],
    "top": ["top"],
    "top-everywhere": ["top", "-A"],
}


def main() -> None:
    for (name, arguments), (place, width) in itertools.product(SCREENS.items(), WIDTHS.items()):
        (GOLDEN / f"{name}-{place}.txt").write_text(show(arguments, width))


if __name__ == "__main__":
    main()
