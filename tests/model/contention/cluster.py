"""A day of many jobs on one cluster: the real operator, and a simulated scheduler, queue, kubelet and driver."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from railhead.api import names
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint, Report, State
from railhead.contract.times import format_time
from railhead.resources.queues.kueue import PRIORITY_CLASS
from tests.model.api_server import JOBS, Entry, Object
from tests.model.contention.jobs import Work
from tests.model.contention.scheduler import Pod, choose
from tests.model.contention.training import Hooks, Loss, Training, is_head, is_leaving, is_running
from tests.model.crowd import NAMESPACE, Crowd
from tests.model.kueue import NAME, ModelKueue
from tests.model.operator import PODS
from tests.unit.builders import SPEC, find_code

Way = Literal["none", "gang", "queue"]
PRIORITIES = {"normal": 0, "urgent": 1000}
WORKLOADS = "workloads"
ENDED = ("Succeeded", "Failed")
PULL = (5.0, 60.0)
DRAIN = 30.0  # worker.drainSeconds of a job with GPUs
RETRY = 5.0  # until a report is sent again that was not written
STARTING = 30.0  # of pods that are created one after the other and have not been refused a GPU
INCOMPLETE, STARTS, SAVES, TRAINS = "incomplete", "starting", "saving", "training"


@dataclass
class Contention(Crowd):
    """GPUs that jobs compete for.

    Attributes:
        way: what keeps jobs from holding a part of what they need: nothing but Railhead's own rules, a gang scheduler,
            or a queue whose quota is the cluster.
        spent: GPU-seconds by what the pods of a job did with them.
        longest: seconds for which a job held GPUs while others of its pods had none, and none of them got one.
        ended_at: seconds at which each job succeeded.
    """

    way: Way = "none"
    gpus: int = 64
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    longest: float = 0.0
    ended_at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uses_kueue = self.way == "queue"
        super().__post_init__()
        self.work: dict[str, Work] = {}
        self.training: dict[str, Training] = {}
        self._pods: defaultdict[str, dict[str, Object]] = defaultdict(dict)
        self._now_doing: dict[str, tuple[str, int]] = {}
        self._doing_since: dict[str, float] = {}
        self._measured_at: dict[str, float] = {}
        self._unsent: dict[str, Report] = {}
        self._is_scheduling = self._is_queueing = False
        self._kueue: ModelKueue | None = None
        if self.uses_kueue:
            self._kueue = ModelKueue(self.api, NAMESPACE, gpus=self.gpus, priorities=PRIORITIES)

    def submit(self, jobs: Iterable[Work]) -> None:
        for each in jobs:
            self.work[each.name] = each
            self.at(each.at, partial(self._create, each))

    def run(self, until: float) -> None:
        """To this second. Raises what a part of the simulation has raised."""
        errors: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: errors.append(context.get("exception") or context))
        if not self._operators:
            self.loop.run_until_complete(self._start())
        self.loop.run_until_complete(asyncio.sleep(until - self.loop.time()))
        if errors:
            raise errors[0]

    @property
    def losses(self) -> list[Loss]:
        """Of all jobs."""
        return [loss for training in self.training.values() for loss in training.losses]

    def _create(self, work: Work) -> None:
        priority = "urgent" if work.is_urgent else "normal"
        scheduling: dict[str, str] = {"queueName": NAME} if self.uses_kueue else {"priorityClassName": priority}
        if self.way == "gang":
            scheduling["gangScheduler"] = "PodGroup"
        labels = {PRIORITY_CLASS: priority} if self.uses_kueue else {}
        scaling = {"numWorkers": work.gpus, "useGPU": True, "workersPerPod": 1}
        body = {
            "metadata": {"name": work.name, "labels": labels},
            "spec": {**SPEC, "scaling": scaling, "scheduling": scheduling},
        }
        hooks = Hooks(
            self.loop.time,
            self.loop.call_later,
            partial(self._report, work.name),
            partial(self._end_head, work.name),
        )
        self.training[work.name] = Training(work.gpus, work.seconds, self.random, hooks)
        self.api.create((JOBS, NAMESPACE, work.name), body)

    def _admit(self, plural: str, body: Object) -> str:
        return ""  # no ResourceQuota

    def _act(self, entry: Entry) -> None:
        if entry.plural == WORKLOADS and not self._is_queueing:
            self._is_queueing = True
            self.loop.call_later(0.5, self._queue)
        if entry.plural != PODS:
            return
        self._look_at(entry)
        if not self._is_scheduling:
            self._is_scheduling = True
            self.loop.call_later(0.1, self._schedule)

    def _look_at(self, entry: Entry) -> None:
        pod = entry.object
        name, job = pod["metadata"]["name"], pod["metadata"]["labels"][names.LABEL_JOB_NAME]
        before = self._pods[job].get(name)
        if entry.type == "DELETED":
            self._pods[job].pop(name, None)
        else:
            self._pods[job][name] = pod
        self._run_kubelet(before, pod)
        self.training[job].look(self._attempt_of(job))
        self._end_workers(job)
        self._account(job)

    def _attempt_of(self, job: str) -> list[Object]:
        """The pods of its newest attempt."""
        pods = list(self._pods[job].values())
        newest = max((attempt_of(pod) for pod in pods), default=0)
        return [pod for pod in pods if attempt_of(pod) == newest]

    def _queue(self) -> None:
        assert self._kueue is not None
        self._is_queueing = False
        if self._kueue.run_once(self.now()) and not self._is_queueing:
            self._is_queueing = True
            self.loop.call_later(0.5, self._queue)

    def _schedule(self) -> None:
        self._is_scheduling = False
        pods = {name: pod for found in self._pods.values() for name, pod in found.items()}
        choice = choose(
            (self._describe(pod) for pod in pods.values() if pod["status"].get("phase") not in ENDED),
            self.gpus,
            {
                obj["metadata"]["name"]: obj["spec"]["schedulingPolicy"]["gang"]["minCount"]
                for (kind, _, _), obj in self.api.objects.items()
                if kind == "podgroups"
            },
        )
        for name in choice.placed:
            self.api.bind(name, "node-1", namespace=NAMESPACE)
        for name in choice.waiting:
            if not pods[name]["status"].get("conditions"):
                self._set(name, {"conditions": [build_condition("PodScheduled", "False", "Unschedulable")]})
        for name in choice.evicted:
            self._set(name, {"conditions": [build_condition("DisruptionTarget", "True", "PreemptionByScheduler")]})
            self.api.delete((PODS, NAMESPACE, name), {})

    def _describe(self, pod: Object) -> Pod:
        metadata, spec = pod["metadata"], pod["spec"]
        return Pod(
            metadata["name"],
            gpus=0 if is_head(pod) else 1,
            priority=PRIORITIES.get(spec.get("priorityClassName", ""), 0),
            order=int(metadata["uid"].partition("-")[0], 16),
            gang=spec.get("schedulingGroup", {}).get("podGroupName", ""),
            is_placed=bool(spec.get("nodeName")),
            is_leaving=is_leaving(pod),
        )

    def _run_kubelet(self, before: Object | None, pod: Object) -> None:
        """Pulls the image after a pod got its node, and ends a pod that is deleted."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if pod["spec"].get("nodeName") and not (before or pod)["spec"].get("nodeName"):
            self.loop.call_later(self.random.uniform(*PULL), self._start_pod, name, uid)
        if not is_leaving(pod) or (before and is_leaving(before)):
            return
        grace = pod["metadata"]["deletionGracePeriodSeconds"]
        training = self.training[pod["metadata"]["labels"][names.LABEL_JOB_NAME]]
        if is_head(pod) and is_running(pod):
            self.loop.call_later(grace, self._remove, name, uid)
            if not training.has_group(pod):
                self.loop.call_later(1, partial(training.hooks.end_head, "Preemption"))
        else:
            seconds = DRAIN if training.has_group(pod) else self.random.uniform(1, 5)
            self.loop.call_later(min(grace, seconds), self._remove, name, uid)

    def _start_pod(self, name: str, uid: str) -> None:
        pod = self._find(name, uid)
        if pod is not None and not is_leaving(pod):
            state = {"running": {"startedAt": format_time(self.now())}}
            self._set(name, {"phase": "Running", "containerStatuses": [{"name": names.CONTAINER, "state": state}]})
            if is_head(pod):
                self._report(pod["metadata"]["labels"][names.LABEL_JOB_NAME], "STARTING")

    def _end_workers(self, job: str) -> None:
        """Workers that drain end when their head has ended."""
        pods = self._attempt_of(job)
        if any(is_head(pod) and is_running(pod) for pod in pods):
            return
        for pod in pods:
            if is_leaving(pod) and not is_head(pod):
                metadata = pod["metadata"]
                self.loop.call_later(self.random.uniform(1, 5), self._remove, metadata["name"], metadata["uid"])

    def _end_head(self, job: str, outcome: str) -> None:
        if outcome == "Succeeded":
            self.ended_at[job] = self.loop.time()
        for pod in self._attempt_of(job):
            if is_head(pod) and is_running(pod):
                metadata = pod["metadata"]
                message = Outcome(outcome, reason=outcome, message="so", checkpoint=self._checkpoint(job), reports=1)
                ended = {"exitCode": find_code(outcome), "message": message.to_json()}
                ended["finishedAt"] = format_time(self.now())
                containers = [{"name": names.CONTAINER, "state": {"terminated": ended}}]
                phase = "Succeeded" if outcome == "Succeeded" else "Failed"
                self._set(metadata["name"], {"phase": phase, "containerStatuses": containers})
                if is_leaving(pod):
                    self.loop.call_later(1, self._remove, metadata["name"], metadata["uid"])

    def _checkpoint(self, job: str) -> CommittedCheckpoint | None:
        commits = self.training[job].commits
        return CommittedCheckpoint(f"/runs/c{commits - 1}", commits - 1, format_time(self.now())) if commits else None

    def _report(self, job: str, state: State) -> None:
        raw, attempt = self.api.objects[JOBS, NAMESPACE, job], self._attempt_of(job)
        joined = sum(is_running(pod) and not is_head(pod) for pod in attempt)
        report = Report(
            namespace=NAMESPACE,
            name=job,
            uid=raw["metadata"]["uid"],
            attempt=attempt_of(attempt[0]),
            state=state,
            reports=1,
            joined=joined,
            time=format_time(self.now()),
            checkpoint=self._checkpoint(job),
        )
        self.loop.create_task(self._send(report))
        self._account(job)

    async def _send(self, report: Report) -> None:
        """Sends the newest state again until it is written."""
        self._unsent[report.name] = report
        while self._unsent.get(report.name) is report and not await self._operators[0].report(report):  # noqa: ASYNC110
            await asyncio.sleep(RETRY)

    def _account(self, job: str) -> None:
        """Adds up what the job's GPUs did until now, and finds what they do from now on."""
        now = self.loop.time()
        doing, held = self._now_doing.get(job, ("", 0))
        self.spent[doing] += held * (now - self._measured_at.get(job, now))
        self._measured_at[job] = now
        if doing == INCOMPLETE:
            self.longest = max(self.longest, now - self._doing_since[job])
        new = self._find_doing(job, now)
        if new[0] != doing or new[1] > held:
            self._doing_since[job] = now
            if new[0] == STARTS:
                self.loop.call_later(STARTING + 1, self._account, job)
        self._now_doing[job] = new

    def _find_doing(self, job: str, now: float) -> tuple[str, int]:
        holders = [pod for pod in self._pods[job].values() if holds_gpu(pod)]
        if not holders:
            return "", 0
        training, attempt = self.training[job], self._attempt_of(job)
        if training.is_training and not any(is_leaving(pod) for pod in holders):
            return TRAINS, len(holders)
        if any(is_leaving(pod) for pod in holders) or job in self.ended_at:
            return SAVES, len(holders)
        if len(holders) == training.gpus:
            return STARTS, len(holders)
        doing, _ = self._now_doing.get(job, ("", 0))
        began = self._doing_since.get(job, now) if doing == STARTS else now
        is_refused = any(pod["status"].get("conditions") and not pod["spec"].get("nodeName") for pod in attempt)
        is_starting = doing in ("", STARTS) and not is_refused and now - began < STARTING
        return (STARTS if is_starting else INCOMPLETE), len(holders)


def attempt_of(pod: Object) -> int:
    return int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])


def holds_gpu(pod: Object) -> bool:
    return not is_head(pod) and bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ENDED


def build_condition(type_: str, status: str, reason: str) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": "0/64 nodes are available"}
