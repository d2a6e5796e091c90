"""What `railhead why` prints in random states of the model is true: each sentence is judged by the facts it asserts."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.model.claims import explain, find_false
from tests.model.queue_schedule import QueueSchedule
from tests.model.schedule import Schedule
from tests.model.world import World
from tests.model.world_schedule import WorldSchedule
from tests.tried import Tried

FEW = 3
MANY = 60
# In place of the schedules' own limits, so that jobs come to their last try, and fail.
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"backoffLimit": 1, "noProgressLimit": 1},
    {"backoffLimit": 2, "backoffResetSeconds": 60},
    {"backoffLimit": 1, "failurePolicy": {"rules": [{"action": "Fail", "onClass": ["Preemption", "Startup", "Hang"]}]}},
    {"backoffLimit": 3, "disruptionLimit": 1, "activeDeadlineSeconds": 9000},
)


@dataclass
class Judge:
    """Judges what is printed at each rest of an operator that has seen all."""

    states: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)

    def look(self, world: World) -> None:
        jobs = [each for (plural, _, _), each in world.api.objects.items() if plural == "trainjobs"]
        for job in jobs:
            self.states += 1
            facts, findings = explain(world, job)
            for finding in findings:
                self.seen[finding.reason] += 1
                self.false.update(f"{finding.reason}, in {facts.phase}, {each}" for each in find_false(facts, finding))


class JudgedWorld(WorldSchedule):
    """The actors of the world beside a job."""

    judge: Judge

    async def _settle(self) -> None:
        await super()._settle()
        if self.operator is not None:
            self.judge.look(self.world)


class JudgedSchedule(Schedule):
    """Losses, failures, suspensions and faults of one job."""

    judge: Judge

    async def _settle(self, number: int) -> None:
        await super()._settle(number)
        self.judge.look(self.world)


class JudgedQueue(QueueSchedule):
    """The same in a queue of Kueue."""

    judge: Judge

    async def _settle(self, number: int) -> None:
        await super()._settle(number)
        self.judge.look(self.world)


KINDS: tuple[type[JudgedWorld | JudgedSchedule | JudgedQueue], ...] = (JudgedWorld, JudgedSchedule, JudgedQueue)


def judge_states(kind: type[JudgedWorld | JudgedSchedule | JudgedQueue], seeds: range) -> Judge:
    judge = Judge()
    for seed in seeds:
        limits = LIMITS[seed % len(LIMITS)]
        schedule = kind(seed)
        schedule.judge = judge
        if isinstance(schedule, Schedule):
            schedule._spec = {**schedule._spec, **limits}
            # An operator with a wrong clock writes times that compare with no others.
            del schedule._weights["clock"]
        if not limits:
            asyncio.run(schedule.run())
            continue
        with suppress(AssertionError):  # a job that may fail does not reach the end that the schedule wants
            asyncio.run(schedule.run())
    return judge


@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_is_true_where_it_is_printed(
    kind: type[JudgedWorld | JudgedSchedule | JudgedQueue], tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    judge = judge_states(kind, range(FEW))
    assert not judge.false, judge.false.most_common(5)
    tried(f"states explained in {kind.__name__}", judge.states)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_is_true_in_thousands_of_states(
    kind: type[JudgedWorld | JudgedSchedule | JudgedQueue], tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    judge = judge_states(kind, range(FEW, FEW + MANY))
    assert not judge.false, judge.false.most_common(5)
    tried(f"states explained in {kind.__name__}", judge.states)
