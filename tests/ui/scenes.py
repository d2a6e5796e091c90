"""Jobs for the page in a browser: a running, a failed, a queued, a hung and a deleted one, hostile ones, and many."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.rank_use import RankAnswers, RankGpu
from railhead.client.explain.ranks import RankStack
from railhead.client.ui.page_source import TrainJobName
from railhead.contract.report import CommittedCheckpoint
from railhead.contract.run_folder import RECORD
from railhead.contract.run_record import RecordedAttempt, RecordedEnvironment, RecordedSpec, RunRecord
from railhead.contract.spent import Spent
from railhead.contract.times import format_time
from railhead.json_object import Object
from tests.unit.client.jobs import NOW, make_condition, make_event, make_failed, make_job, make_pod, make_running
from tests.unit.client.run_folder import write_log, write_run, write_segment
from tests.unit.client.ui.fixed_source import FixedSource

URI = "s3://bucket/runs/digits-1a2b3c4d"
# Of rank 2, two spaces from the left, as Python prints it.
TRACEBACK = '(rank 2)   File "train.py", line 41, in train_func'
TRACKER_URL = "https://wandb.ai/team/digits/runs/digits-1a2b3c4d"
# What a pod or an author may call things: HTML, a terminal's orders, other writing directions, and keys of NiceGUI.
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "\x1b]0;owned\x07\x1b[2Jtext",
    "\u202egnp.exe",
    ":onClick",
    "(document.title='owned')",
    "{{constructor.constructor('document.title=1')()}}",
    "</textarea></script><svg/onload=document.title='owned'>",
)
RUNNING_POD: Object = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}
SPEC = {"trainer": {"trainFunc": "train:main"}, "run": {"storagePath": "s3://bucket/runs"}}
ATTEMPTS = [
    {
        "number": 1,
        "startTime": "2026-11-25T08:00:20Z",
        "runningTime": "2026-11-25T08:01:30Z",
        "completionTime": "2026-11-25T09:12:00Z",
        "class": "Hardware",
        "reason": "GPUFailed",
        "node": "gpu-7",
    },
    {
        "number": 2,
        "startTime": "2026-11-25T09:14:00Z",
        "runningTime": "2026-11-25T09:15:10Z",
        "completionTime": "2026-11-25T10:21:00Z",
        "class": "Preemption",
        "reason": "NodeDrained",
        "node": "spot-3",
        "rounds": 1,
    },
    {"number": 3, "startTime": "2026-11-25T10:31:00Z", "runningTime": "2026-11-25T10:32:00Z"},
]


def make_training(name: str = "digits", percent: int = 42) -> Object:
    """A job of 8 GPUs that has lost two attempts."""
    job = make_running(
        spec={**SPEC, "scaling": {"numWorkers": 8, "workersPerPod": 4, "useGPU": True}},
        progress={
            "attempt": 3,
            "state": "RUNNING",
            "workers": 8,
            "percentComplete": percent,
            "estimatedRemainingSeconds": 12_000,
            "remaining": "3h20m",
            "step": percent * 100,
            "totalSteps": 10_000,
            "stepsPerSecond": "1.25",
            "metrics": {"loss": "0.3125", "epoch": "4"},
            "updateTime": "2026-11-25T11:59:50Z",
            "slowRanks": [
                {
                    "rank": 5,
                    "pod": f"{name}-1a2b3c-3-w1-0",
                    "node": "gpu-2",
                    "score": "0.68",
                    "since": ATTEMPTS[2]["startTime"],
                }
            ],
        },
        workers={"desired": 2, "ready": 2, "joined": 2},
        head={"pod": f"{name}-1a2b3c-3-head", "node": "cpu-1"},
        checkpoint={"uri": f"{URI}/checkpoint_2", "index": 1, "time": "2026-11-25T11:40:00Z", "attempt": 3},
        bestCheckpoint={"uri": f"{URI}/checkpoint_1", "index": 0, "time": "2026-11-25T10:00:01Z", "attempt": 1},
        runURI=URI,
        trackerURL=TRACKER_URL,
        restarts={"disruptions": 2},
        goodput={
            "percent": "86.2",
            "wallSeconds": 14_380,
            "productiveSeconds": 12_396,
            "gpuSeconds": 115_040,
            "lostGPUSeconds": 15_872,
            "lostSeconds": {
                "starting": 70,
                "restoring": 860,
                "retrained": 720,
                "podsPending": 210,
                "checkpointing": 124,
            },
            "interruptions": {"Hardware": 1, "Preemption": 1},
        },
        attempts=ATTEMPTS,
    )
    job["metadata"].update(name=name, uid=f"uid-{name}", creationTimestamp="2026-11-25T08:00:00Z")
    job["status"]["attempt"] = 3
    return job


def write_training(run: Path, name: str = "digits") -> None:
    """Writes 600 reports of the job, its journal, two checkpoints and a log per rank."""
    write_run(run)
    reports = []
    for step in range(1, 601):
        at = format_time(NOW - timedelta(seconds=(601 - step) * 8))
        attempt = 1 if step < 200 else 2 if step < 400 else 3
        loss = (
            2.4 * math.exp(-step / (170 if name == "digits" else 120))
            + 0.12 * math.sin(step * 1.7) / (1 + step / 90)
            + 0.2
        )
        metrics = {
            "loss": loss,
            "accuracy": 1 - loss / 3,
            "lr": 1e-3 * min(1, step / 60),
            "throughput/tokens": 41_000 + 900 * math.sin(step),
        }
        reports.append({"time": at, "attempt": attempt, "report": step, "step": step * 7, "metrics": metrics})
    write_segment(run, "metrics", *reports)
    loss_of_pod = {
        "event": "lostPods",
        "pods": [f"{name}-1a2b3c-3-w1-0"],
        "attempt": 3,
        "time": "2026-11-25T11:02:00.000Z",
    }
    group = {"event": "group", "workers": 8, "attempt": 3, "time": "2026-11-25T11:04:30.000Z"}
    commits = [
        {
            "event": "checkpoint",
            "index": n - 1,
            "checkpoint": f"{URI}/checkpoint_{n}",
            "attempt": n,
            "time": f"2026-11-25T{9 + n}:40:00.000Z",
        }
        for n in (1, 2)
    ]
    write_segment(run, "journal", commits[0], loss_of_pod, group, commits[1])
    (run / "checkpoint_2").mkdir()
    (run / "checkpoint_2" / "model.pt").write_bytes(bytes(300_000))
    lines = "".join(f"2026-11-25T10:00:{n % 60:02}Z archived line {n}\n" for n in range(300))
    write_log(run, "uiddigit-1/head/r0-head-000000.log.gz", lines)
    last = "2026-11-25T09:11:58Z step 1399: loss 0.41\n2026-11-25T09:11:59Z CUDA error: uncorrectable ECC error\n"
    write_log(run, "uiddigit-1/3/r0-w3-000000.log.gz", last)


def make_hung() -> Object:
    job = make_training("hung", percent=17)
    job["status"]["conditions"].append(
        make_condition("HangSuspected", "NoSteps", "no rank has made a step for 14 minutes; rank 3 is suspected")
    )
    return job


def make_queued() -> Object:
    conditions = [make_condition("Suspended", "WaitingForQuota", "the queue gpus has no room: 16 of 16 GPUs are used")]
    return make_job("queued", phase="Queued", conditions=conditions, spec=SPEC)


def make_lost() -> Object:
    job = make_failed(
        "Application", "TrainFunctionRaised", "ValueError: shapes (3,4) and (5,) do not match\n  train.py:41"
    )
    job["metadata"].update(name="failed", uid="uid-failed")
    job["spec"].update(SPEC)
    job["status"]["attempts"] = [
        {**ATTEMPTS[0], "class": "Application", "reason": "TrainFunctionRaised", "node": ""},
        {**ATTEMPTS[1], "class": "Application", "reason": "TrainFunctionRaised", "node": ""},
    ]
    return job


def build_five(folder: Path) -> FixedSource:
    """Returns the source; the job "deleted" goes a moment after it is seen."""
    deleted = make_training("deleted", percent=3)
    source = _Deleting(
        [make_training(), make_lost(), make_queued(), make_hung(), deleted, make_training("digits-b", 71)]
    )
    for name in ("digits", "digits-b", "hung"):
        key = TrainJobName("team-a", name)
        run = folder / name
        run.mkdir(parents=True, exist_ok=True)
        write_training(run, name)
        source.folders[key] = run
        source.pods[key] = [
            make_pod(f"{name}-1a2b3c-3-head", attempt=3, **RUNNING_POD),
            *(make_pod(f"{name}-1a2b3c-3-w{slot}-0", slot=slot, attempt=3, **RUNNING_POD) for slot in range(2)),
        ]
        source.lines[key] = [f"(rank {n % 4}) step {n}: loss {2 / (n + 1):.4f}" for n in range(400)]
        source.lines[key].insert(399, TRACEBACK)
        source.events[key] = [make_event("Started", "Training runs from checkpoint 0", count=2)]
        pods = [f"{name}-1a2b3c-3-w{rank // 4}-0" for rank in range(8)]
        source.ranks[key] = RankAnswers(
            tuple(RankStack(rank, pods[rank], *STACKS[rank == 3]) for rank in range(8)),
            tuple(RankGpu(rank, 0, 61 << 30, 80 << 30, 4 if rank == 3 else 100) for rank in range(8)),
            tuple(1699 if rank == 3 else 1700 for rank in range(8)),
        )
    losses = source.jobs[TrainJobName("team-a", "digits-b")]["status"]["goodput"]
    losses["interruptions"] = {"Hardware": 4, "Preemption": 4}  # with checkpoints more than an hour apart
    source.readers[TrainJobName("team-a", "failed")] = folder / "digits"
    write_past_runs(folder / "storage")
    return source


def write_past_runs(storage: Path) -> None:
    """Writes a storage with four runs without TrainJobs: one lives, one has died, one has failed, one succeeded."""
    now = datetime.now(UTC)
    ends = {"living": "", "lost": "", "broken": "Application", "wide": "Succeeded"}
    for number, (name, outcome) in enumerate(ends.items()):
        run = storage / name
        run.mkdir(parents=True, exist_ok=True)
        write_training(run, name)
        seen = now - timedelta(hours=3 + number)
        if name == "living":
            seen = now + timedelta(hours=1)  # it would count as lost 5 minutes later, while the tests still read it
        started = seen - timedelta(hours=2)
        reason = {"Application": "TrainFunctionRaised"}.get(outcome, "")
        attempts = [
            RecordedAttempt(
                *("uid-digits", each, f"pod-{each}"),
                started=format_time(started + timedelta(minutes=50 * (each - 1))),
                seen=format_time(started + timedelta(minutes=45) if each == 1 else seen),
                outcome="Hardware" if each == 1 else outcome,
                reason="GPUFailed" if each == 1 else reason,
                message="ValueError: shapes (3,4) and (5,) do not match" if each == 2 and reason else "",
                workers=8,
                spent=Spent(productive=2_000_000 + 400_000 * number, starting=70_000, checkpointing=90_000),
            )
            for each in (1, 2)
        ]
        record = RunRecord(
            *("team-a", name, "uid-digits", f"{URI}/{name}"),
            RecordedSpec(train_func="train:main", train_loop_config={"lr": 0.1 * (number + 1)}, num_workers=8),
            RecordedEnvironment("registry.example.com/train:1", {"ray": "2.58.0", "torch": "2.9.0"}, code="3f9a"),
            tuple(attempts),
            checkpoint=CommittedCheckpoint(f"{URI}/{name}/checkpoint_2", 1, format_time(seen), {"loss": "0.3"}, 2),
            best_checkpoint=CommittedCheckpoint(
                *(f"{URI}/{name}/checkpoint_1", 0, format_time(seen)), {"loss": f"0.{4 - number}2"}, 1
            ),
            metrics={"loss": f"0.{4 - number}1"},
        )
        spec = replace(record.spec, score_attribute="loss", score_order="min")
        (run / RECORD).write_bytes(replace(record, spec=spec).to_json())


STACKS = {
    False: (
        "at train.py:61 in step, inside torch.distributed",
        'File "train.py", line 61 in step\n  all_reduce(grads)',
    ),
    True: ("at train.py:41 in load, inside pyarrow", 'File "train.py", line 41 in load\n  table = read(path)'),
}


def build_hostile(folder: Path) -> FixedSource:
    """Returns a job in which each text that its author or its pods write is hostile."""
    job = make_training()
    text = " ".join(HOSTILE)
    status: dict[str, Any] = job["status"]
    status["phase"] = "Running"
    status["conditions"] += [
        make_condition(type_, reason, text)
        for type_, reason in (("HangSuspected", "NoSteps"), ("StorageUnavailable", HOSTILE[0]))
    ]
    status["failure"] = {
        "class": "Application",
        "reason": HOSTILE[1],
        "message": text,
        "attempt": 3,
        "node": HOSTILE[4],
    }
    status["progress"]["metrics"] = dict.fromkeys(HOSTILE[:6], "1")
    status["progress"]["slowRanks"] = [{"rank": 5, "pod": HOSTILE[0], "node": HOSTILE[1], "score": "0.6"}]
    status["progress"]["remaining"] = HOSTILE[5][:16]
    status["checkpoint"]["uri"] = f"s3://{text}"
    status["runURI"] = f"s3://{HOSTILE[0]}"
    status["trackerURL"] = "javascript:document.title='owned'"
    job["spec"]["image"] = text
    job["spec"]["trainer"]["trainLoopConfig"] = dict.fromkeys(HOSTILE, text)
    source = FixedSource([job])
    key = TrainJobName("team-a", "digits")
    run = folder / "hostile"
    run.mkdir(parents=True, exist_ok=True)
    write_run(run)
    metrics = dict.fromkeys(HOSTILE, 1.0)
    reports = [{"report": n, "step": n, "metrics": {**metrics, "loss": 1 / n}} for n in range(1, 9)]
    write_segment(run, "metrics", *reports)
    write_segment(run, "journal", {"event": text, ":reason": text, "reason": text})
    write_log(run, "uiddigit-1/head/r0-head-000000.log.gz", "".join(f"{each}\n" for each in HOSTILE))
    source.folders[key] = run
    source.pods[key] = [make_pod(HOSTILE[0], slot=0, attempt=3, phase="Pending", reason=HOSTILE[1], message=text)]
    source.events[key] = [make_event(HOSTILE[4], text), make_event(HOSTILE[0], text)]
    source.lines[key] = [*HOSTILE, text]
    write_hostile_run(folder / "storage" / "digits")
    stacks = RankStack(0, HOSTILE[0], HOSTILE[1], text), RankStack(1, HOSTILE[4], HOSTILE[0], text)
    source.ranks[key] = RankAnswers(stacks, problems=HOSTILE)
    return source


def write_hostile_run(run: Path) -> None:
    """Writes a run of a storage, to which anybody may have written, with a record of hostile texts."""
    run.mkdir(parents=True, exist_ok=True)
    write_run(run)
    text = " ".join(HOSTILE)
    attempt = RecordedAttempt(
        *("uid-digits", 1, "pod", "2026-11-25T08:00:00Z", "2026-11-25T09:00:00Z", HOSTILE[3]),
        outcome=HOSTILE[0],
        reason=HOSTILE[1],
        message=text,
    )
    record = RunRecord(
        *(HOSTILE[4], text, "uid-digits", f"s3://{HOSTILE[0]}"),
        RecordedSpec(train_func=text, train_loop_config=dict.fromkeys(HOSTILE, text), score_attribute=HOSTILE[0]),
        RecordedEnvironment(text, dict.fromkeys(HOSTILE, text), repository=text, code=text),
        (attempt,),
        best_checkpoint=CommittedCheckpoint(text, 0, text, dict.fromkeys(HOSTILE, text), 1),
        metrics=dict.fromkeys(HOSTILE, text),
    )
    (run / RECORD).write_bytes(record.to_json())


def build_many(_folder: Path) -> FixedSource:
    """Returns 2,000 jobs of which twenty change each second."""
    phases = ("Running", "Running", "Running", "Queued", "Pending", "Succeeded", "Failed")
    jobs = []
    for number in range(2000):
        job = make_training(f"job-{number:04}", percent=number % 101)
        job["status"]["phase"] = phases[number % len(phases)]
        jobs.append(job)
    return _Changing(jobs)


class _Deleting(FixedSource):
    """Its job "deleted" goes a moment after somebody has looked at it."""

    async def read_snapshot(self, key: TrainJobName) -> JobSnapshot:
        snapshot = await super().read_snapshot(key)
        if key.name == "deleted":
            asyncio.get_running_loop().call_later(1, self._delete, key)
        return snapshot

    def _delete(self, key: TrainJobName) -> None:
        if key in self.jobs:
            self.remove(key)


class _Changing(FixedSource):
    """Its jobs progress."""

    async def watch_jobs(self, on_change: Any, on_list: Callable[[], None]) -> None:
        changing = asyncio.create_task(self._change())
        try:
            await super().watch_jobs(on_change, on_list)
        finally:
            changing.cancel()

    async def _change(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(1)
            turn += 1
            for number in range(20):
                at = (turn * 20 + number) % 2000
                self.put(make_training(f"job-{at:04}", percent=(at + turn) % 101))


SCENES: Mapping[str, Callable[[Path], FixedSource]] = {
    "five": build_five,
    "hostile": build_hostile,
    "many": build_many,
}
