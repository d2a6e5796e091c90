"""One job on the model of the API server, under the real store, planner, executor and loop, one pass at a time.

Kubelets and garbage collection act at once; everything else happens when a test triggers it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.api.spec import TrainJobSpec
from railhead.api.status import parse_status
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint, Report, ReportedOutcome, ResumedFrom, RunWarning, State
from railhead.contract.times import format_time
from railhead.controller.executor import Executor
from railhead.controller.observe import observe_pod
from railhead.planning.observed import Announced, Observed
from railhead.planning.plan import Plan
from railhead.planning.pod_view import ENDED_WITHIN, PodView
from railhead.resources.base import OperatorSettings
from tests.model.api_server import JOBS, Entry, ModelApiServer, Object
from tests.model.faults import Faults
from tests.model.operator import PODS, ModelOperator
from tests.model.world import count_losses
from tests.unit.builders import NOW, SETTINGS, SPEC, find_code, is_empty

KEY = JobKey("default", "digits")
JOB = (JOBS, KEY.namespace, KEY.name)
NODE = "node-1"
_loop = asyncio.new_event_loop()  # passes are many and short: one loop for all of them
atexit.register(_loop.close)


@dataclass
class RecordingExecutor(Executor):
    """Keeps the last plan."""

    last: Plan = field(default_factory=Plan)

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        self.last = plan
        await super().execute(key, uid, plan)


class Simulation:
    """One job and its pods. Each `reconcile` is one pass of the operator.

    Attributes:
        stuck: pods on unreachable nodes: they stay Terminating.
        rejects: called before a pod is created; returns the message of a rejection, or nothing.
    """

    def __init__(self, *, rejects: Callable[[Object], str] = lambda body: "", **spec: Any) -> None:
        self.now: datetime = NOW
        self.stuck: set[str] = set()
        self.rejects = rejects
        self.api = ModelApiServer(lambda: self.now, admission=self._admit)
        self.api.changed = self._watch_heads
        self.api.create(JOB, {"metadata": {"name": KEY.name}, "spec": {**SPEC, **spec}})
        self.two_heads: list[list[str]] = []
        self._pods: tuple[int, dict[str, PodView]] = (0, {})
        self.restart()

    def restart(self, settings: OperatorSettings = SETTINGS) -> None:
        """The operator exits, and another one starts."""
        self.operator = ModelOperator(self.api, Faults(yields=lambda: 0), settings=settings, time=lambda: self.now)
        executor = self.operator.loop.executor
        self._executor = RecordingExecutor(executor.client, executor.cache, executor.events)
        self.operator.loop.executor = self._executor
        self._results: list[str] = []
        self.operator.loop.count = lambda result, seconds: self._results.append(result)
        _loop.run_until_complete(self.operator.start())

    def reconcile(self) -> Plan:
        """Observes everything, plans and executes; deleted pods disappear."""
        _loop.run_until_complete(self._pass())
        assert self._results[-1] in ("done", "refused"), f"the pass ended as {self._results[-1]}: {self.last}"
        for name, pod in self.pods.items():
            if pod.is_deleting and name not in self.stuck:
                self.lose(name)
        assert not self.two_heads, f"two live heads: {self.two_heads}"
        return self.last

    async def _pass(self) -> None:
        self._see()
        self._executor.last = Plan()
        await self.operator.loop.reconcile(KEY)

    async def execute(self, wanted: Plan) -> None:
        """A plan from an earlier pass."""
        await self._executor.execute(KEY, self.api.objects[JOB]["metadata"]["uid"], wanted)

    def _see(self) -> None:
        self.operator.watch(PODS)
        self.operator.watch(JOBS)

    def settle(self, limit: int = 20) -> None:
        """Passes until the plan is empty."""
        for _ in range(limit):
            if is_empty(self.reconcile()):
                return
        raise AssertionError(f"does not settle: {self.last}")

    def observe(self) -> Observed:
        self._see()
        observed = self.operator.store.observe(KEY, now=self.now, settings=SETTINGS)
        assert observed is not None
        return observed

    @property
    def last(self) -> Plan:
        """The plan of the last pass."""
        return self._executor.last

    @property
    def status(self) -> Object:
        status: Object = self.api.objects[JOB]["status"]
        return status

    @property
    def losses(self) -> Counter[str]:
        """What the job restarted from, by cause."""
        return count_losses(self.api.log)

    @property
    def spec(self) -> TrainJobSpec:
        spec = self.observe().spec
        assert isinstance(spec, TrainJobSpec)
        return spec

    @property
    def announced(self) -> Announced | None:
        return self.observe().announced

    @property
    def bodies(self) -> dict[str, Object]:
        return {name: pod for (plural, _, name), pod in self.api.objects.items() if plural == PODS}

    @property
    def pods(self) -> dict[str, PodView]:
        """As they are, including what the operator has not seen yet."""
        if self._pods[0] != self.api.version:
            self._pods = (self.api.version, {name: observe_pod(pod) for name, pod in self.bodies.items()})
        return dict(self._pods[1])

    @property
    def head(self) -> PodView:
        return self.live_heads[0]

    @property
    def live_heads(self) -> list[PodView]:
        return [p for p in self.pods.values() if p.role == names.HEAD and p.is_live and p.name.endswith("-head")]

    @property
    def heads(self) -> list[str]:
        """All that were ever created, in order."""
        created = (entry.object["metadata"] for entry in self._log_of(PODS) if entry.type == "ADDED")
        return [metadata["name"] for metadata in created if metadata["labels"][names.LABEL_ROLE] == names.HEAD]

    @property
    def events(self) -> list[str]:
        """The reasons, in order, repeated ones included."""
        return [entry.object["reason"] for entry in self._log_of("events")]

    def count_created(self, *plurals: str) -> int:
        return sum(count for (plural, _), count in self.api.creates.items() if plural in plurals)

    def count_deleted(self) -> int:
        return sum(count for (plural, _), count in self.api.deletes.items() if plural == PODS)

    def count_status_writes(self) -> int:
        """By the executor, not by the report endpoint."""
        requests = (r for r in self.operator.client.asked if r.verb == "patch/status" and "fieldManager" not in r.path)
        return sum(any(operation["op"] != "test" for operation in request.body) for request in requests)

    def _log_of(self, plural: str) -> Iterable[Entry]:
        return (entry for entry in self.api.log if entry.plural == plural)

    def check_condition(self, type_: str) -> bool:
        return parse_status(self.status).has_condition(type_)

    def later(self, seconds: float) -> None:
        self.now = datetime.fromtimestamp(self.now.timestamp() + seconds, self.now.tzinfo)

    def apply(self, **spec: Any) -> None:
        """The user's `kubectl apply` of this spec."""
        operations = [{"op": "add", "path": "/spec", "value": {**SPEC, **spec}}]
        self.api.patch(JOB, operations, content_type="application/json-patch+json")

    def edit_status(self, **fields: Any) -> None:
        """Sets a status that would take many passes to reach."""
        self.api.patch(JOB, {"status": fields}, subresource="status")

    def report(
        self,
        state: State = "RUNNING",
        *,
        checkpoint: int | None = None,
        joined: int | None = None,
        run_uri: str = "",
        resumed_from: str = "",
        warning: RunWarning | None = None,
        outcome: ReportedOutcome | None = None,
        **fields: Any,
    ) -> None:
        """The driver reports to the report endpoint. `fields`: others of the report, by name."""
        self._see()
        index, at = checkpoint, format_time(self.now)
        report = Report(
            namespace=KEY.namespace,
            name=KEY.name,
            uid=self.api.objects[JOB]["metadata"]["uid"],
            attempt=self.status["attempt"],
            state=state,
            reports=1,
            joined=len(self.pods) - 1 if joined is None else joined,
            checkpoint=CommittedCheckpoint(f"/runs/c{index}", index, at) if index is not None else None,
            run_uri=run_uri,
            resumed_from=ResumedFrom(resumed_from) if resumed_from else None,
            warning=warning,
            outcome=outcome,
            **fields,
        )
        _loop.run_until_complete(self.operator.report(report))

    def start_pods(self, *, but: Iterable[str] = ()) -> None:
        for name, pod in self.pods.items():
            if pod.is_live and name not in but:
                self.start_pod(name)

    def start_pod(self, name: str) -> None:
        if not self.pods[name].node:
            self.api.bind(name, NODE, namespace=KEY.namespace)
        if not self.pods[name].is_running:
            self._set(name, {"running": {"startedAt": format_time(self.now)}}, phase="Running")

    def cannot_schedule(self, name: str, message: str) -> None:
        """As reported by the scheduler."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._set(name, {}, phase="Pending", conditions=[condition])

    def end_head(self, outcome: str, **options: Any) -> None:
        self.end_pod(self.head.name, outcome, **options)

    def end_pod(
        self,
        name: str,
        outcome: str,
        message: str = "because",
        *,
        raw: str | None = None,
        code: int | None = None,
        phase: str = "",
        checkpoint: Object | None = None,
        best_checkpoint: Object | None = None,
    ) -> None:
        """With its driver's outcome, or `raw`, as termination message; `phase` is the pod's if that does not end it."""
        code = find_code(outcome) if code is None else code
        newest, best = (CommittedCheckpoint.from_dict(each) for each in (checkpoint, best_checkpoint))
        result = Outcome(outcome=outcome, reason=outcome, message=message, checkpoint=newest, best_checkpoint=best)
        self._terminate(name, result.to_json() if raw is None else raw, code=code, phase=phase)

    def end_with(self, outcome: Outcome) -> None:
        """The head ends with this outcome."""
        self._terminate(self.head.name, outcome.to_json(), code=find_code(outcome.outcome))

    def _terminate(self, name: str, message: str, *, code: int, phase: str = "") -> None:
        ended = {"exitCode": code, "message": message, "finishedAt": format_time(self.now)}
        self._set(name, {"terminated": ended}, phase=phase or ("Succeeded" if code == 0 else "Failed"))

    def set_phase(self, name: str, phase: str) -> None:
        self.api.patch((PODS, KEY.namespace, name), {"status": {"phase": phase}}, subresource="status")

    def _set(self, name: str, state: Object, **status: Any) -> None:
        containers = [{"name": names.CONTAINER, "state": state}]
        patch = {"status": {**status, "containerStatuses": containers}}
        self.api.patch((PODS, KEY.namespace, name), patch, subresource="status")

    def evict(self, name: str, *, gone_in: float) -> datetime:
        """Deleted by someone else, but stuck; returns by when it must be gone."""
        grace = int(gone_in - ENDED_WITHIN.total_seconds())
        self.stuck.add(name)
        self.api.delete((PODS, KEY.namespace, name), {"gracePeriodSeconds": grace})
        gone_by = self.pods[name].gone_by
        assert gone_by is not None
        return gone_by

    def lose(self, name: str) -> None:
        """Deleted by someone else, and gone at once."""
        self.api.remove((PODS, KEY.namespace, name))

    def run_until_training(self) -> None:
        self.settle()
        self.start_pods()
        self.settle()
        self.report()
        self.settle()

    def _admit(self, plural: str, body: Object) -> str:
        return self.rejects(body) if plural == PODS else ""

    def _watch_heads(self, entry: Entry) -> None:
        if entry.plural == PODS and entry.type == "ADDED" and len(self.live_heads) > 1:
            self.two_heads.append([head.name for head in self.live_heads])


def env_of(body: Object) -> dict[str, str]:
    """The environment of a pod's container."""
    return {item["name"]: item.get("value", "") for item in body["spec"]["containers"][0]["env"]}


def known_checkpoints(body: Object) -> Any:
    return json.loads(env_of(body)["RAILHEAD_KNOWN_CHECKPOINTS"])
