"""The loop: take a key, observe, plan, execute, decide when to reconcile again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from railhead.api.parsed_spec import JobKey
from railhead.contract.callbacks import always, ignore
from railhead.controller.discovery import Discovery
from railhead.controller.executor import ChildRejected, Executor, LostCompare
from railhead.controller.expiring import Expiring
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.queues import RETRY_SECONDS
from railhead.controller.store import Store
from railhead.kube.errors import KubeError, RetryAfter
from railhead.planning.amendments.workload import release
from railhead.planning.observed import Observed
from railhead.planning.planner import plan
from railhead.resources.base import OperatorSettings
from railhead.together import let_end

log = logging.getLogger(__name__)
TROUBLE_RETRY_SECONDS = 5.0
LAST_PASS_SECONDS = 3.0
SMALL_JOB_PODS = 256
LOOK_UP_SECONDS = 1.0
# A turn that was not taken by then is forgotten.
UNUSED_SECONDS = 60.0
# About forty times what a pod costs in a pass.
PAUSE_SECONDS_PER_POD = 1e-4


def pause_after(pods: int) -> float:
    """Returns the seconds between two passes over a job with this many pods. A pass reads all of them, and each of
    their events asks for one: without a pause, a large gang that starts would occupy the loop."""
    if pods > SMALL_JOB_PODS:
        return pods * PAUSE_SECONDS_PER_POD
    return 0.0


class LookUpTurns:
    """Turns to look up the Events of a pod, one per second for all jobs together, in the order of asking.

    Events have no watch cache in the API server: each look-up reads those of the whole namespace.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next = float("-inf")
        self._turns = Expiring[JobKey, float](UNUSED_SECONDS)

    def take(self, key: JobKey) -> float:
        """Returns 0 when it is this job's turn, else the seconds until then: ask again."""
        now = self._monotonic()
        turn = self._turns.get(key, now)
        if turn is None:
            turn = max(now, self._next)
            self._next = turn + LOOK_UP_SECONDS
            self._turns.put(key, turn, at=turn)
        if turn <= now:
            self._turns.pop(key)
        return max(turn - now, 0.0)


@dataclass
class Loop:
    """Reconciles jobs, several at a time, never one job twice at once.

    A pass mostly waits for the API server, so many run at a time, and a few jobs whose requests hang delay no other.
    A job has no pass while `is_current` denies that its namespace's pods are known: the namespace's return makes all
    its keys due.
    """

    store: Store
    queue: KeyedQueue[JobKey]
    executor: Executor
    settings: OperatorSettings
    now: Callable[[], datetime]
    count: Callable[[str, float], None] = ignore
    monotonic: Callable[[], float] = time.monotonic
    is_current: Callable[[str], bool] = always
    turns: LookUpTurns = field(init=False)
    discovery: Discovery = field(init=False)

    def __post_init__(self) -> None:
        self.turns = LookUpTurns(self.monotonic)
        self.discovery = Discovery(self.executor.client)

    async def run(self, concurrency: int) -> None:
        """Runs until cancelled; passes in progress are then completed, since they hold status writes and Events."""
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                # A pass that is cut off between its status and its pods is repaired by the next one, but only after a
                # new lead.
                await let_end(self.reconcile(key), seconds=LAST_PASS_SECONDS)
            except asyncio.CancelledError:
                # Its pass may be incomplete, and the loop may run again.
                self.queue.add(key)
                raise
            finally:
                self.queue.done(key, pause=pause_after(self.store.count_pods(key)))

    async def reconcile(self, key: JobKey) -> None:
        """Makes one pass over one job, and over what earlier jobs of its name left. An error stays with that job:
        nothing is raised."""
        left = await self._release_workloads(key)
        # `now` is the API server's time: limits compare it with times that the API server has written.
        observed = self.store.observe(key, now=self.now(), settings=self.settings)
        if observed is None or not self.is_current(key.namespace):
            self.queue.forget(key)
            if left:
                self.queue.wake(key, min(left))
            return
        began = self.monotonic()
        result = await self._run_pass(key, observed, left)
        self.count(result, self.monotonic() - began)

    async def _release_workloads(self, key: JobKey) -> list[float]:
        """Lets the Workload of a job that is gone go once no pod of it can act: its quota is free then. Returns the
        seconds after which to try those again that stay."""
        now = self.now()
        again = list[float]()
        for workload, pods in self.store.list_left_workloads(key) if self.is_current(key.namespace) else ():
            acting = [pod for pod in pods if pod.may_act(now)]
            again += [(pod.out_of_reach_at - now).total_seconds() for pod in acting if pod.out_of_reach_at]
            if acting:
                continue
            try:
                await self.executor.patch_workload(key, release(workload))
            except (LostCompare, KubeError) as error:
                again.append(RETRY_SECONDS)
                log.info("%s: Workload of a deleted job: %s; retrying in %.0f s", key, error, RETRY_SECONDS)
        return again

    async def _run_pass(self, key: JobKey, observed: Observed, left: list[float]) -> str:
        """Returns the pass's result: done, lost, refused or error. `left`: seconds after which another one is due
        anyway."""
        try:
            # Asked only for an attempt that may begin, since it is a request for each job.
            if observed.may_choose_gang:
                observed = replace(observed, serves_pod_groups=await self.discovery.has_pod_groups())
            wanted = plan(observed)
            await self.executor.execute(key, observed.uid, wanted)
            pod = wanted.look_up_events_of
            wait = self.turns.take(key) if pod else 0.0
            events = await self.executor.look_up_events(key, pod) if pod and not wait else None
        except LostCompare as lost:
            log.info("%s/%s: %s", key.namespace, key.name, lost)
            # The watch brings the change that the compare has met; the backoff is for the case that it does not.
            self.queue.fail(key)
            return "lost"
        except ChildRejected as rejected:
            log.warning("%s/%s: %s", key.namespace, key.name, rejected)
            self.store.note_rejection(observed.uid, rejected.problem, at=self.now())
            self.queue.succeed(key)
            # The next pass reports it, with the time of the next try.
            self.queue.add(key)
            return "refused"
        except KubeError as error:
            requested = error.seconds if isinstance(error, RetryAfter) else None
            self._retry(key, str(error), at_least=requested or 0.0)
            return "error"
        except Exception as error:
            # One job's error must not stop the operator.
            log.exception("%s/%s: pass failed", key.namespace, key.name)
            self._retry(key, f"{type(error).__name__}: {error}", at_least=TROUBLE_RETRY_SECONDS)
            return "error"
        if wanted.announced is not None:
            self.store.note_announced(observed.uid, wanted.announced)
        if pod is not None and events is not None:
            self.store.note_pod_events(pod, events)
            # The next pass reports it, with the time of the next look-up.
            self.queue.add(key)
        # All of them were accepted, or an exception would have left this pass.
        if wanted.creates:
            self.store.forget_rejection(observed.uid)
        self.queue.succeed(key)
        delays = [*left, wait] if wait else left
        if wanted.wake_at is not None:
            delays = [*delays, (wanted.wake_at - self.now()).total_seconds()]
        if delays:
            self.queue.wake(key, min(delays))
        return "done"

    def _retry(self, key: JobKey, message: str, *, at_least: float) -> None:
        delay = self.queue.fail(key, at_least=at_least)
        log.warning("%s/%s: %s; retrying in %.1f s", key.namespace, key.name, message, delay)
