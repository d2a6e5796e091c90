"""The operator as `controller/app.py` wires it: store, queue, loop, planner and executor are the real ones."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from railhead.api.parsed_spec import JobKey
from railhead.contract.report import Report
from railhead.controller.cluster_state import ClusterState
from railhead.controller.denied_status import StatusDenials
from railhead.controller.events import EventRecorder
from railhead.controller.executor import Executor
from railhead.controller.keyed_queue import KeyedQueue, Timer
from railhead.controller.loop import Loop
from railhead.controller.queues import RETRY_SECONDS
from railhead.controller.report.schedule import Urgency, WriteSchedule
from railhead.controller.report.writer import PendingReport, ReportWriter
from railhead.controller.store import Store
from railhead.controller.watch_guard import sweep_once
from railhead.json_object import Object
from railhead.kube.client import Scope
from railhead.kube.errors import KubeError, is_refusal
from railhead.kube.informer import Informer
from railhead.kube.kinds import TRAIN_JOB
from railhead.resources.base import OperatorSettings
from tests.model.api_server import ModelApiServer
from tests.model.client import ModelClient
from tests.model.faults import Faults
from tests.unit.builders import SETTINGS

JOBS, PODS = "trainjobs", "pods"


class Alarm(Timer):
    """One call that is due at some time."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Alarms:
    """`call_later` by the world's clock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._order = itertools.count()
        self._heap: list[tuple[datetime, int, Alarm]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Alarm:
        alarm = Alarm(call)
        heapq.heappush(self._heap, (self._now() + timedelta(seconds=seconds), next(self._order), alarm))
        return alarm

    def ring(self) -> bool:
        """Runs all calls that are due."""
        rang = False
        while self._heap and self._heap[0][0] <= self._now():
            alarm = heapq.heappop(self._heap)[2]
            if alarm.call is not None:
                alarm.call()
                rang = True
        return rang

    @property
    def next_at(self) -> datetime | None:
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class ModelOperator:
    """One operator process. It sees only the events the test delivers; `wall` is the clock of its machine."""

    def __init__(
        self,
        api: ModelApiServer,
        faults: Faults,
        *,
        time: Callable[[], datetime],
        wall: Callable[[], datetime] | None = None,
        settings: OperatorSettings = SETTINGS,
        uses_kueue: bool = False,
    ) -> None:
        self._api = api
        self.client = ModelClient(api, faults, wall=wall or time)
        self.alarms = Alarms(time)
        self.store = Store()
        self.queue: KeyedQueue[JobKey] = KeyedQueue(self.alarms.call_later)
        self.state = ClusterState(self.client, self.store, self.queue, uses_kueue=uses_kueue)
        optional = self.state.queues.informers if self.state.queues else []
        self._informers = {each.state.kind.plural: each for each in (*self.state.informers, *optional)}
        executor = Executor(self.client, self.state, EventRecorder(self.client))
        self.loop = Loop(
            self.store,
            self.queue,
            executor,
            settings,
            now=self.client.clock.now,
            monotonic=lambda: time().timestamp(),
        )
        self.writer = ReportWriter(
            self.client,
            WriteSchedule(25.0, lambda: 0.0),
            lookup=self.state.find_facts,
            record_job=self.state.record_job,
            call_later=self.alarms.call_later,
            denials=StatusDenials(self.client, EventRecorder(self.client)),
        )
        self.streams = (*self._informers, JOBS)
        self._queue_streams = tuple(each.state.kind.plural for each in optional)
        self._refused = set[str]()  # streams of which a refused list is to be tried again
        self._seen = dict.fromkeys(self.streams, 0)

    async def start(self) -> None:
        """The first lists."""
        for stream in self.streams:
            await self.list(stream)

    async def list(self, stream: str) -> None:
        """As after a 410: events since the last one are never delivered. kopf does not notice deleted objects."""
        if stream in self._informers:
            await self._list_for(self._informers[stream])
        else:
            for job in await self.client.list(Scope(TRAIN_JOB)):
                self.state.on_job(None, job)
        self._seen[stream] = self._api.version

    async def _list_for(self, informer: Informer[Any]) -> None:
        """As in `Informer.run`: it lists again 30 s after a refusal."""
        try:
            await informer._list()
        except KubeError as error:
            if informer.state.kind.plural not in self._queue_streams or not is_refusal(error):
                raise
            informer.state.refuse(error)
            informer.answered.set()
            self.alarms.call_later(RETRY_SECONDS, lambda: self._refused.add(informer.state.kind.plural))

    async def sweep(self) -> None:
        await sweep_once(self.client, self.store, ())

    def watch(self, stream: str, events: int = 10**9) -> bool:
        """At most `events` events of one kind, from the end of the last list or watch."""
        if stream in self._queue_streams and self._informers[stream].state.is_refused:
            return False
        entries = self._api.since(self._seen[stream], stream)[:events]
        for entry in entries:
            self._seen[stream] = entry.version
            self.see(stream, entry.type, entry.object)
        return bool(entries)

    async def watch_all(self) -> None:
        """All events of pods, of Kueue's objects and of jobs."""
        for stream in (PODS, *self._queue_streams, JOBS):
            self.watch(stream)
        for stream in self._queue_streams:
            await self.follow(stream)

    async def follow(self, stream: str) -> None:
        """Lists a kind of Kueue again when the API server has ended its watch, because the definition is gone, or when
        the pause after a refusal is over."""
        if stream not in self._queue_streams:
            return
        is_due = stream in self._refused
        self._refused.discard(stream)
        if is_due or (not self._informers[stream].state.is_refused and self._is_missing(stream)):
            await self.list(stream)

    def _is_missing(self, stream: str) -> bool:
        try:
            self._api.policy("GET", (stream, "", ""), "")
        except KubeError:
            return True
        return False

    def see(self, stream: str, type_: str, obj: Object) -> None:
        """One event of a watch."""
        if stream == JOBS:
            self.state.on_job(type_, obj)
        else:
            self._informers[stream]._take({"type": type_, "object": obj})

    @property
    def is_idle(self) -> bool:
        return self.queue._due.empty()

    async def reconcile(self) -> None:
        """Reconciles the next key that is due."""
        key = await self.queue.get()
        try:
            await self.loop.reconcile(key)
        finally:
            self.queue.done(key)

    async def report(self, report: Report) -> bool:
        """As the report endpoint accepts it; returns whether it need not be retried."""
        key = JobKey(report.namespace, report.name)
        await self.writer._write(key, PendingReport(report, Urgency.STATE, 0.0))
        return self.writer._latest.pop(key, None) is None
