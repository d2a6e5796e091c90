"""Jobs of one namespace that share a quota, in virtual time: requests, pod starts and terminations take random times.

The operator's own loop runs all jobs at once, as in `controller/app.py`; `Crowd.run` advances the clock.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from railhead.api import names
from railhead.contract.report import Report
from railhead.contract.times import format_time
from tests.model.api_server import JOBS, Entry, ModelApiServer, Object
from tests.model.faults import Faults
from tests.model.operator import PODS, ModelOperator
from tests.unit.builders import NOW, SPEC

NAMESPACE = "default"


class Skip(selectors.SelectSelector):
    """Waits for nothing: the loop's clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing is due: the test would wait forever"
        self.skipped += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self) -> None:
        self._skip = Skip()
        super().__init__(self._skip)

    def time(self) -> float:
        return self._skip.skipped


@dataclass
class Crowd:
    """Jobs of `pods` pods each, and a quota of pods for all of them.

    Attributes:
        held: GPU-seconds (pod-seconds) of incomplete gangs, by job.
        idle: the same of the pods that have a node.
        complete_at: when each job first had all its pods, in seconds since the beginning.
        seconds: how long a complete gang trains; None = forever.
        room: how many pods the nodes take; the others stay unscheduled.
        resource: what the quota counts.
        longest_hold: for how many seconds on end each job held pods of an incomplete gang, but for those being deleted.
    """

    seed: int
    quota: int = 10**6
    seconds: float | None = None
    room: int = 10**6
    resource: str = "pods"
    outsiders: int = 0  # pods that count in the quota and are not Railhead's
    uses_kueue: bool = False
    latency: tuple[float, float] = (0.002, 0.05)  # of half a request, and of a watch
    ending: tuple[float, float] = (1, 30)  # seconds that a pod takes to terminate
    complete_at: dict[str, float] = field(default_factory=dict)
    held: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    sizes: dict[str, int] = field(default_factory=dict)
    longest_hold: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.loop = VirtualLoop()
        self.api = ModelApiServer(self.now, admission=self._admit)
        self.api.changed = self._see
        self._operators: list[ModelOperator] = []
        self._main: asyncio.Task[None] | None = None
        self._held_since: dict[str, float] = {}

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.loop.time())

    def apply(self, name: str, pods: int = 16, **spec: Any) -> None:
        self.sizes[name] = pods
        scaling = {"numWorkers": pods - 1, **spec.pop("scaling", {})}
        body = {"metadata": {"name": name}, "spec": {**SPEC, "scaling": scaling, **spec}}
        self.api.create((JOBS, NAMESPACE, name), body)

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        self.loop.call_at(seconds, call)

    def run(self, until: float) -> None:
        """To this second."""
        if not self._operators:
            self.loop.run_until_complete(self._start())
        while self.loop.time() < until:
            step = min(1.0, until - self.loop.time())
            self.loop.run_until_complete(asyncio.sleep(step))
            self._measure(step)

    def change_leader(self) -> None:
        """The operator dies, and another one starts with empty caches."""
        assert self._main is not None
        self._main.cancel()
        self._operators.clear()

    def close(self) -> None:
        if self._main is not None:
            self._main.cancel()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.1))
        self.loop.close()

    async def _start(self) -> None:
        operator = ModelOperator(self.api, Faults(yields=lambda: 0), time=self.now, uses_kueue=self.uses_kueue)
        operator.queue._call_later = self.loop.call_later
        send = operator.client._call

        async def send_late(*args: Any, **kwargs: Any) -> Object:
            await asyncio.sleep(self.random.uniform(*self.latency))
            answer: Object = await send(*args, **kwargs)
            await asyncio.sleep(self.random.uniform(*self.latency))
            return answer

        operator.client._call = send_late  # type: ignore[method-assign]
        await operator.start()
        self._operators = [operator]
        self._main = self.loop.create_task(operator.loop.run(8))

    def pods_of(self, job: str) -> list[Object]:
        return self._group_pods().get(job, [])

    def _group_pods(self) -> dict[str, list[Object]]:
        """Returns the pods of each job."""
        found: defaultdict[str, list[Object]] = defaultdict(list)
        for (plural, _, _), obj in self.api.objects.items():
            if plural == PODS:
                found[obj["metadata"]["labels"][names.LABEL_JOB_NAME]].append(obj)
        return found

    def status(self, job: str) -> Object:
        found: Object = self.api.objects[JOBS, NAMESPACE, job]["status"]
        return found

    def reason(self, job: str, type_: str = "Reconciling") -> str:
        found = [c["reason"] for c in self.status(job).get("conditions", []) if c["type"] == type_]
        return found[0] if found else ""

    def _admit(self, plural: str, body: Object) -> str:
        if plural != PODS:
            return ""
        wanted = self._count(body)
        used = self.outsiders + sum(
            self._count(pod)
            for (kind, _, _), pod in self.api.objects.items()
            if kind == PODS and pod["status"]["phase"] not in ("Succeeded", "Failed")
        )
        if not wanted or used + wanted <= self.quota:
            return ""
        # plugin/pkg/admission/resourcequota/controller.go: checkRequest
        name = self.resource
        return f"exceeded quota: gpus, requested: {name}={wanted}, used: {name}={used}, limited: {name}={self.quota}"

    def _count(self, pod: Object) -> int:
        """Returns what the quota counts for a pod."""
        if self.resource == "pods":
            return 1
        device = self.resource.removeprefix("requests.")
        limits = [(each.get("resources") or {}).get("limits") or {} for each in pod["spec"]["containers"]]
        return sum(int(each.get(device, 0)) for each in limits)

    def _see(self, entry: Entry) -> None:
        """Watches deliver it to every operator, and the rest of the cluster acts on it."""
        if not self.loop.is_running():
            self.loop.call_soon(self._see, entry)
            return
        for operator in self._operators:
            if entry.plural in operator.streams:
                self.loop.call_later(self.random.uniform(*self.latency), operator.watch, entry.plural)
        self._act(entry)

    def _act(self, entry: Entry) -> None:
        """The kubelet starts and ends pods."""
        if entry.plural != PODS or entry.type == "DELETED":
            return
        metadata = entry.object["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if entry.type == "ADDED":
            self.loop.call_later(self.random.uniform(1, 5), self._start_pod, name, uid)
        elif metadata.get("deletionGracePeriodSeconds", 0) > 0:
            self.loop.call_later(self.random.uniform(*self.ending), self._remove, name, uid)

    def _find(self, name: str, uid: str) -> Object | None:
        found = self.api.objects.get((PODS, NAMESPACE, name))
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _start_pod(self, name: str, uid: str) -> None:
        pod = self._find(name, uid)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        bound = sum(bool(o["spec"].get("nodeName")) for (kind, _, _), o in self.api.objects.items() if kind == PODS)
        if bound >= self.room:
            self.loop.call_later(5, self._start_pod, name, uid)
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
            self._set(name, {"conditions": [condition]})
            return
        self.api.bind(name, "node-1", namespace=NAMESPACE)
        state = {"running": {"startedAt": format_time(self.now())}}
        containers = [{"name": names.CONTAINER, "state": state}]
        self._set(name, {"phase": "Running", "containerStatuses": containers})
        self._train(pod["metadata"]["labels"][names.LABEL_JOB_NAME])

    def _set(self, name: str, status: Object) -> None:
        self.api.patch((PODS, NAMESPACE, name), {"status": status}, subresource="status")

    def _remove(self, name: str, uid: str) -> None:
        if self._find(name, uid) is not None:
            self.api.remove((PODS, NAMESPACE, name))

    def _is_complete(self, job: str, pods: list[Object]) -> bool:
        live = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        return len([pod for pod in live if pod["status"]["phase"] == "Running"]) == self.sizes[job]

    def _train(self, job: str) -> None:
        """The driver reports once its gang is complete, and its job succeeds after a while."""
        if not self._is_complete(job, self.pods_of(job)) or not self._operators:
            return
        self.complete_at.setdefault(job, self.loop.time())
        raw = self.api.objects[JOBS, NAMESPACE, job]
        report = Report(
            namespace=NAMESPACE,
            name=job,
            uid=raw["metadata"]["uid"],
            attempt=raw["status"]["attempt"],
            state="RUNNING",
            reports=1,
            joined=self.sizes[job] - 1,
        )
        self.loop.create_task(self._operators[0].report(report))
        if self.seconds is not None:
            self.loop.call_later(self.seconds, self._succeed, job)

    def _succeed(self, job: str) -> None:
        for pod in self.pods_of(job):
            if pod["metadata"]["labels"][names.LABEL_ROLE] == names.HEAD:
                message = '{"outcome": "Succeeded", "reason": "Succeeded", "message": "done"}'
                ended = {"exitCode": 0, "message": message, "finishedAt": format_time(self.now())}
                containers = [{"name": names.CONTAINER, "state": {"terminated": ended}}]
                self._set(pod["metadata"]["name"], {"phase": "Succeeded", "containerStatuses": containers})

    def _measure(self, seconds: float) -> None:
        pods_by_job = self._group_pods()  # once for all: a crowd is measured each second, for hours
        for job in self.sizes:
            pods = pods_by_job.get(job, [])
            if self._is_complete(job, pods) or self.status(job).get("phase") in ("Succeeded", "Failed"):
                self._held_since.pop(job, None)
                continue
            self.held[job] += seconds * len(pods)
            self.idle[job] += seconds * count_placed(pods)
            if all("deletionTimestamp" in pod["metadata"] for pod in pods):
                self._held_since.pop(job, None)
                continue
            since = self._held_since.setdefault(job, self.loop.time())
            self.longest_hold[job] = max(self.longest_hold[job], self.loop.time() - since)

    def count_requests(self) -> int:
        """Returns how many requests the operator has sent for all jobs."""
        return sum(len(operator.client.asked) for operator in self._operators)


def count_placed(pods: list[Object]) -> int:
    """Returns how many of them have a node."""
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)
