"""Random schedules: which component acts next, which faults occur, which events are late. A seed replays one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.kube.errors import KubeError
from tests.model.faults import CODES, CRASH_AFTER, CRASH_BEFORE, LOST_ANSWER, NEVER_SENT, Call, Crash, Fault, Faults
from tests.model.operator import JOBS, PODS, ModelOperator
from tests.model.oracles import (
    Watchman,
    check_attempts,
    check_counters,
    check_drivers,
    check_end,
    check_goodput,
    check_images,
    check_stuck_pods,
)
from tests.model.play import TURNS
from tests.model.world import NODE, World, count_losses, is_live, name_of

STEPS = 120
FAULT_RATE = 0.04
ACTIONS = {
    "pass": 30,
    "watch": 30,
    "kubelet": 30,
    "report": 12,
    "tick": 8,
    "relist": 2,
    "restart": 1,
    "train": 1.5,
    "remove worker": 1,
    "evict worker": 1,
    "remove head": 1,
    "evict head": 1,
    "cut off worker": 0.5,
    "cut off head": 0.5,
    "silence worker": 0.5,
    "application": 1,
    "restart in place": 1,
    "hang": 0.7,
    "kill for memory": 2,
    "upgrade": 0.5,
    "foreign write": 1,
    "same name": 0.3,
    "clock": 0.5,
    "suspend": 0.7,
    "resume": 0.7,
    "change": 2,
    "change and resume": 1,
    "quota": 0.7,
    "no quota": 0.7,
    "no room": 0.7,
    "room": 0.7,
    "node clock": 0.5,
}
# A schedule has none of these, all but OOM kills, or all. A job with no budget at all must succeed without them, and
# with them if its failure policy ignores them.
FAILURES = ("application", "restart in place", "hang", "kill for memory")
LOSSES = ("restart in place", "hang", "remove worker", "remove head")  # of a group that trains
INPUTS = ("configmaps", "secrets")
IN_PLACE = (FailureClass.APPLICATION, FailureClass.HANG, FailureClass.HARDWARE, FailureClass.OUT_OF_MEMORY)
MANY: dict[str, Any] = {"backoffLimit": 900, "noProgressLimit": 900}
NONE: dict[str, Any] = {"backoffLimit": 0, "noProgressLimit": 0}
IGNORED = {"action": "RestartAndIgnore", "onClass": ["Application", "OutOfMemory", "Hang", "Infrastructure"]}
KINDS: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    (NONE, FAILURES),
    (MANY, FAILURES[-1:]),
    (MANY, ()),
    ({**NONE, "failurePolicy": {"rules": [IGNORED]}}, ()),
)


@dataclass
class Schedule:
    """One random schedule of a job under one or two operators. `done` counts what happened."""

    seed: int
    operators: int = 2  # a rollout, or an old leader that wakes up
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.world = World(epochs=6)
        self._watchman = Watchman(self.world, operators=self.operators)
        self._faults = Faults(self._choose_fault, lambda: self._random.randrange(3))
        self._is_calm = False
        # The removal of an input or a token (it is read first) was denied, and an operator was restarted later.
        self._is_denied = False
        self._is_forgotten = False
        self._skew = timedelta()
        self._operators: list[ModelOperator | None] = [None] * self.operators
        self._generation = 0
        self.application = 0
        self.in_place = 0
        self._spec, left_out = KINDS[self.seed % len(KINDS)]
        self._weights: dict[str, float] = {each: weight for each, weight in ACTIONS.items() if each not in left_out}
        self._streams: tuple[str, ...] = (JOBS, PODS)

    async def run(self) -> World:
        """Faults first; then calm, in which everything must reach its documented end."""
        self.world.apply(**self._spec)
        for _ in range(STEPS):
            await self._act(self._random.choices(list(self._weights), list(self._weights.values()))[0])
        self._is_calm, self._skew = True, timedelta()
        self._heal()
        await self._calm_down()
        assert self.world.status().get("phase") == "Succeeded", "nothing waits for unreachable nodes"
        check_stuck_pods(self.world)
        self.done["stuck"] += len(self.world.status().get("stuckPods", []))
        self.world.remove_nodes()
        await self._calm_down()
        self._check()
        return self.world

    def _heal(self) -> None:
        """Nothing but the operator keeps the job from its end."""
        self.world.change(suspend=False)
        self.world.quota = None
        self.world.full_nodes.clear()

    def _choose_fault(self, call: Call) -> Fault | None:
        if self._is_calm or self._random.random() > FAULT_RATE:
            return None
        kinds: tuple[Fault, ...] = (CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT, *CODES)
        fault = self._random.choice(kinds)
        self.done[str(fault)] += 1
        if call.verb in ("get", "delete") and call.plural in INPUTS and fault in CODES:
            self._is_denied = True
        return fault

    def _wall(self) -> datetime:
        return self.world.now + self._skew

    async def _act(self, action: str) -> None:
        self.done[action] += 1
        number = self._random.randrange(self.operators)
        if action == "pass":
            await asyncio.gather(*(self._pass(n) for n in range(self.operators) if self._random.random() < 0.6))
        elif action in ("watch", "relist"):
            await self._see(number, self._random.choice(self._streams), is_list=action == "relist")
        elif action == "report":
            await self._report(number)
        elif action == "restart":
            self._operators[number] = None
        elif action == "train":
            await self._train(number)
        elif action == "tick":
            self.world.tick(self._random.choice((1, 5, 60, 400, 7200)))
        elif action == "clock":
            self._skew = timedelta(hours=self._random.choice((-24, -1, 0, 1, 24)))
        else:
            self._disturb(action)

    async def _train(self, number: int) -> None:
        """Nothing disturbs the job until it trains; then its group fails, not its start."""
        was_calm, self._is_calm = self._is_calm, True
        for _ in range(TURNS):
            await self._settle(number)
            if self.world.trains or not self.world.step():
                break
            self.world.tick(1)
        self._is_calm = was_calm
        await self._act(self._random.choice([action for action in LOSSES if action in self._weights]))
        if self._random.random() < 0.7:
            await self._report(number)

    def _disturb(self, action: str) -> None:
        """Changes to the job that do not come from an operator."""
        world, role = self.world, names.HEAD if action.endswith("head") else names.WORKER
        found = sorted((p for p in world.pods(role) if is_live(p)), key=name_of)
        if action == "kubelet" and (pods := sorted(world.pods(), key=name_of)):
            world.step_pod(name_of(self._random.choice(pods)))
        elif action.startswith("remove ") and found:
            world.remove_pod(name_of(self._random.choice(found)))
        elif action.startswith("evict ") and found:
            world.evict_pod(name_of(self._random.choice(found)))
        elif action.startswith("cut off ") and (up := [p for p in found if p["status"]["phase"] == "Running"]):
            world.cut_off(name_of(self._random.choice(up)))
        elif action in ("application", "hang"):
            heads = [p for p in world.live_heads if p["status"]["phase"] == "Running"]
            if heads and not heads[0]["metadata"].get("deletionTimestamp"):
                world.fail(heads[0], action.capitalize())
                self.application += action == "application" and not self._is_lost()
        elif action == "restart in place":
            self.in_place += world.restart_in_place(self._random.choice(IN_PLACE))
        elif action == "silence worker" and (up := [p for p in found if p["status"]["phase"] == "Running"]):
            world.silence(name_of(self._random.choice(up)))
        elif action == "kill for memory" and (up := [p for p in found if p["status"]["phase"] == "Running"]):
            world.kill_for_memory(name_of(self._random.choice(up)))
        elif action == "upgrade":
            world.upgrade()
        elif action == "foreign write" and world.job() is not None:
            place = ("trainjobs", "default", "digits")
            note = {"status": {"foreign": str(self._random.random())}}
            world.api.patch(place, note, subresource="status")
        elif action in ("suspend", "resume"):
            world.change(suspend=action == "suspend")
        elif action.startswith("change"):
            self._change_spec(resumes=action.endswith("resume"))
        elif action.endswith("quota"):
            world.quota = None if action == "no quota" else self._random.randrange(3)
        elif action.endswith("room"):
            world.full_nodes = {NODE} if action == "no room" else set()
        elif action == "node clock":
            world.node_skew = timedelta(seconds=self._random.choice((-3600, -90, 0, 90, 3600)))
        elif action == "same name" and not world.commits:
            world.delete_job()
            world.apply(**self._spec)
            self.application = self.in_place = 0

    def _change_spec(self, *, resumes: bool) -> None:
        """The image, and what the job's input has. The API server refuses it but in phase Suspended."""
        more: dict[str, Any] = {"suspend": False} if resumes else {}
        number = self._random.randrange(1000)
        try:
            self.world.change(image=f"example/train:{number}", trainer={"trainLoopConfig": {"trial": number}}, **more)
            self.done["changed"] += 1
        except KubeError as error:
            assert "can change only while the job is suspended" in str(error)

    def _is_stopped_meanwhile(self) -> bool:
        return self.done["suspend"] > 0

    def _is_lost(self) -> bool:
        """The status has the loss of the attempt: an operator with a stale view has recreated its head."""
        status = self.world.status()
        return (status.get("failure") or {}).get("attempt") == status.get("attempt")

    async def _operator(self, number: int) -> ModelOperator | None:
        """Started if it is not running; None if its first lists fail."""
        operator = self._operators[number]
        if operator is not None and not operator.client.is_dead:
            return operator
        self._is_forgotten = self._is_forgotten or self._is_denied
        operator = ModelOperator(
            self.world.api,
            self._faults,
            time=lambda: self.world.now,
            wall=self._wall,
            settings=self.world.settings,
            uses_kueue=self.world.kueue is not None,
        )
        try:
            await operator.start()
        except (Crash, KubeError):
            return None
        self._operators[number] = operator
        return operator

    async def _pass(self, number: int) -> None:
        operator = await self._operator(number)
        if operator is None:
            return
        operator.alarms.ring()
        try:
            if not operator.is_idle:
                await operator.reconcile()
        except Crash:
            self._operators[number] = None

    async def _see(self, number: int, stream: str, *, is_list: bool) -> None:
        operator = await self._operator(number)
        if operator is None:
            return
        if not is_list:
            operator.watch(stream, self._random.choice((1, 1, 3, 100)))
        try:
            await (operator.list if is_list else operator.follow)(stream)
        except (Crash, KubeError):
            self._operators[number] = None

    async def _report(self, number: int) -> None:
        """The driver's reports reach one of the operators, or none."""
        reports, self.world.reports = self.world.reports, []
        operator = await self._operator(number)
        if operator is None:
            return
        try:
            for report in reports:
                await operator.report(report)
        except Crash:
            self._operators[number] = None

    async def _calm_down(self) -> None:
        """All events are delivered, all components act and time passes, until nothing changes."""
        for _ in range(TURNS):
            for number in range(self.operators):
                await self._settle(number)
            moved = self.world.step()
            self.world.tick(1)
            if moved or self.world.reports:
                continue
            alarms = [o.alarms.next_at for o in self._operators if o is not None]
            due = [at for at in alarms if at is not None and at - self.world.now < timedelta(days=2)]
            if not due:
                return
            self.world.now = max(self.world.now, min(due))
        raise AssertionError(f"it does not settle: {self.world.status()}")

    async def _settle(self, number: int) -> None:
        operator = await self._operator(number)
        assert operator is not None
        while True:
            operator.alarms.ring()
            await operator.watch_all()
            await operator.sweep()
            await self._report(number)
            if operator.is_idle:
                return
            await operator.reconcile()

    def _check(self) -> None:
        check_end(self.world, may_leave_inputs=self._is_forgotten)
        check_stuck_pods(self.world)
        check_counters(self.world)
        check_drivers(self.world)
        check_images(self.world)
        check_attempts(self.world.api.log, operators=self.operators)
        self.done.update(f"time {cause}" for cause in check_goodput(self.world.api, operators=self.operators))
        self._watchman.check()
        job = self.world.job()
        assert job is not None
        losses = count_losses(self.world.api.log, job["metadata"]["uid"])
        counted = losses["application"]
        # An attempt that ends while the job is suspended, or because of a rejected pod, counts in no budget.
        is_excused = self._is_stopped_meanwhile() or losses["startup"]
        is_exact = counted == self.application or (is_excused and counted < self.application)
        is_exact = is_exact or self.done["kill for memory"] > 2  # three in a row count too
        assert is_exact, "each application error is counted once"
        assert losses["inPlace"] <= self.in_place, "each restart in place is counted at most once"
        self.done["counted in place"] += losses["inPlace"]
        self.done["fenced"] += self.world.fenced
        last = [self.world.commits[-1][0], *(attempt for attempt, _ in self.world.starts[-1:])]
        assert self.world.status()["attempt"] >= max(last)
