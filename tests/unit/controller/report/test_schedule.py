"""The order of the reports' writes: urgency, gaps per job, one budget for all."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import groupby

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.contract.report import SILENCE_SECONDS
from railhead.controller.report.schedule import (
    GAP_SECONDS,
    STATE_SECONDS,
    WRITES_AT_A_TIME,
    Urgency,
    WriteSchedule,
)
from tests.slow_cases import slow_after

STATE, CHECKPOINT, PROGRESS = Urgency.STATE, Urgency.CHECKPOINT, Urgency.PROGRESS


def key(name: str) -> JobKey:
    return JobKey("default", name)


A, B, C = key("a"), key("b"), key("c")


class Rig:
    """A schedule, and a clock that the test moves. `wait` is the answer when there was no job to take."""

    def __init__(self, per_second: float = 1000.0) -> None:
        self.now = 0.0
        self.wait = 0.0
        self.schedule = WriteSchedule(per_second, lambda: self.now)

    def take(self) -> JobKey | None:
        """Takes a job whose write ends at once."""
        taken = self.schedule.take()
        if not isinstance(taken, JobKey):
            self.wait = taken
            return None
        self.schedule.done(taken)
        return taken

    def play(self, seconds: float) -> list[tuple[float, JobKey]]:
        """All writes until then, with their times."""
        end, taken = self.now + seconds, list[tuple[float, JobKey]]()
        while self.now <= end:
            while (found := self.take()) is not None:
                taken.append((round(self.now, 3), found))
            self.now += max(self.wait, 1e-6)
        self.now = end
        return taken


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_first_write_of_a_job_is_due_at_once(rig: Rig) -> None:
    rig.schedule.request_write(A, PROGRESS)
    assert rig.take() == A
    assert rig.take() is None
    assert rig.wait == math.inf


def test_the_most_urgent_is_first_then_the_one_that_waited_longest(rig: Rig) -> None:
    for name, urgency in [(A, PROGRESS), (B, CHECKPOINT), (C, STATE), (key("d"), CHECKPOINT), (key("e"), PROGRESS)]:
        rig.now += 0.1
        rig.schedule.request_write(name, urgency)
    assert [rig.take() for _ in range(5)] == [C, B, key("d"), A, key("e")]


@pytest.mark.parametrize(("urgency", "gap"), [(STATE, 1.0), (CHECKPOINT, 2.0), (PROGRESS, 2.0)])
def test_a_job_is_written_again_only_after_a_gap(rig: Rig, urgency: Urgency, gap: float) -> None:
    rig.schedule.request_write(A, PROGRESS)
    rig.take()
    rig.schedule.request_write(A, urgency)
    assert rig.take() is None
    assert rig.wait == gap
    rig.now += gap
    assert rig.take() == A


def test_a_job_that_becomes_more_urgent_is_written_once_and_earlier(rig: Rig) -> None:
    rig.schedule.request_write(A, PROGRESS)
    rig.take()
    for urgency in (PROGRESS, STATE, CHECKPOINT):
        rig.schedule.request_write(A, urgency)
    assert rig.play(10.0) == [(1.0, A)]


def test_a_job_that_is_being_written_waits_for_the_end(rig: Rig) -> None:
    rig.schedule.request_write(A, PROGRESS)
    assert rig.schedule.take() == A
    rig.schedule.request_write(A, STATE)
    rig.now += 60.0
    assert rig.schedule.is_busy(A)
    assert rig.schedule.take() == math.inf
    rig.schedule.done(A)
    assert rig.schedule.take() == A
    rig.schedule.done(A)
    assert not rig.schedule.is_busy(A)


def test_only_a_few_are_written_at_once(rig: Rig) -> None:
    for number in range(WRITES_AT_A_TIME + 1):
        rig.schedule.request_write(key(str(number)), STATE)
    taken = [rig.schedule.take() for _ in range(WRITES_AT_A_TIME)]
    assert rig.schedule.take() == math.inf
    rig.schedule.done(taken[0] if isinstance(taken[0], JobKey) else A)
    assert rig.schedule.take() == key(str(WRITES_AT_A_TIME))


def test_all_jobs_share_a_budget_which_hardly_accumulates() -> None:
    rig = Rig(per_second=25.0)
    rig.now = 3600.0
    for number in range(500):
        rig.schedule.request_write(key(str(number)), PROGRESS)
    taken = rig.play(10.0)
    assert len(taken) == 25 * 10 + 5
    seconds = [sum(second <= at < second + 1 for at, _ in taken) for second in range(3600, 3610)]
    assert seconds[0] <= 30
    assert set(seconds[1:]) <= {25, 26}


def test_urgent_writes_do_not_wait_for_those_that_are_late() -> None:
    rig = Rig(per_second=10.0)
    for number in range(1000):
        rig.schedule.request_write(key(str(number)), PROGRESS)
    rig.play(5.0)
    rig.schedule.request_write(A, CHECKPOINT)
    rig.schedule.request_write(B, STATE)
    assert [taken for _, taken in rig.play(0.3)][:2] == [B, A]


def make_mix(rng: random.Random, jobs: int) -> list[tuple[float, JobKey, Urgency]]:
    """What the reports of a minute change, in order: each job prefers one class, and some report all the time."""
    mix = list[tuple[float, JobKey, Urgency]]()
    for number in range(jobs):
        weights = rng.choice([(1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 8)])
        period = rng.choice([0.5, 1.0, 3.0, 20.0])
        at = rng.random() * period
        while at < 60.0:
            mix.append((round(at, 2), key(str(number)), rng.choices(list(Urgency), weights)[0]))
            at += period * rng.uniform(0.8, 1.2)
    return sorted(mix, key=lambda report: report[0])


def find_waits(per_second: float, mix: list[tuple[float, JobKey, Urgency]]) -> list[float]:
    """For how long checkpoints wait once two seconds have passed since their jobs' last writes."""
    rig, since, last, waits = Rig(per_second), dict[JobKey, float](), dict[JobKey, float](), list[float]()

    def play(seconds: float) -> None:
        for at, job in rig.play(seconds):
            if job in since:
                waits.append(at - max(since.pop(job), last.get(job, 0.0) + GAP_SECONDS[CHECKPOINT]))
            last[job] = at

    for at, reports in groupby(mix, key=lambda report: report[0]):
        play(at - rig.now)
        for _, job, urgency in reports:
            rig.schedule.request_write(job, urgency)
            if urgency is CHECKPOINT:
                since.setdefault(job, at)
    play(600.0)
    assert not since
    return waits


@pytest.mark.parametrize("seed", slow_after(4, range(20)))
def test_in_any_mix_of_reports_each_checkpoint_is_written_within_twice_the_jobs_share(seed: int) -> None:
    rng = random.Random(seed)
    jobs, per_second = rng.randint(1, 120), rng.choice([5.0, 25.0, 50.0])
    longest = max(find_waits(per_second, make_mix(rng, jobs)), default=0.0)
    assert longest <= 2 * jobs / per_second + 0.01


def test_jobs_that_change_state_all_the_time_do_not_hold_up_a_checkpoint() -> None:
    """30 jobs want 30 writes per second, and there are 25."""
    mix = [(half / 2, key(str(number)), STATE) for half in range(1200) for number in range(30)]
    mix.insert(300, (5.0, A, CHECKPOINT))
    [wait] = find_waits(25.0, mix)
    assert wait <= 2 * 31 / 25.0


def test_jobs_that_commit_all_the_time_do_not_hold_up_a_change_of_state() -> None:
    rig = Rig(per_second=5.0)
    for number in range(100):
        rig.schedule.request_write(key(str(number)), CHECKPOINT)
    rig.now += 0.5
    rig.schedule.request_write(A, STATE)
    assert A in [job for _, job in rig.play(1.0)][:6]


def test_a_checkpoint_keeps_its_place_when_the_state_changes_too() -> None:
    rig = Rig(per_second=1.0)
    for number in range(20):
        rig.schedule.request_write(key(str(number)), STATE)
    rig.schedule.request_write(A, CHECKPOINT)
    rig.play(5.0)
    for number in range(20):
        rig.schedule.request_write(key(f"later-{number}"), STATE)
    rig.schedule.request_write(A, STATE)
    assert A in [job for _, job in rig.play(20.0)][:16], "behind those that waited already"


def count_writes(flapping: int, honest: dict[str, int], *, seconds: float, per_second: float = 25.0) -> Counter[str]:
    """By namespace, if jobs of `hostile` change their state in each report and those of the others never do.

    A flapping job reports twice a second, and another one as often as the endpoint tells it.
    """
    rig, written = Rig(per_second), Counter[str]()
    hostile = [JobKey("hostile", str(number)) for number in range(flapping)]
    others = [JobKey(namespace, str(number)) for namespace, jobs in honest.items() for number in range(jobs)]
    due = {job: 2.0 * number / len(others) for number, job in enumerate(others)}
    while rig.now < seconds:
        for job in hostile:
            rig.schedule.note_report(job)
            rig.schedule.request_write(job, STATE)
        for job in others:
            if due[job] <= rig.now:
                rig.schedule.request_write(job, PROGRESS)
                due[job] = rig.now + rig.schedule.note_report(job)
        written.update(job.namespace for _, job in rig.play(0.5))
    return written


def test_thirty_flapping_jobs_leave_the_jobs_of_another_namespace_their_share() -> None:
    """Of 25 writes per second, 20 jobs with a report every two seconds use ten: less than half."""
    alone = count_writes(0, {"honest": 20}, seconds=300.0)["honest"]
    beside = count_writes(30, {"honest": 20}, seconds=300.0)
    assert beside["honest"] >= 0.9 * alone > 2500
    assert beside["hostile"] > 2500, "what the others leave is used"


@pytest.mark.parametrize("flapping", [30, 300])
def test_each_namespace_has_its_share_however_many_jobs_of_another_one_flap(flapping: int) -> None:
    """Of four namespaces with reports, each can use a quarter of the writes, and 40 jobs use nearly all of theirs."""
    honest = {"a": 40, "b": 40, "c": 40}
    written = count_writes(flapping, honest, seconds=60.0)
    for namespace in honest:
        assert written[namespace] >= 0.85 * 60.0 * 25 / 4, "a report is due on a half second"


def test_a_namespace_that_uses_less_than_its_share_is_first_with_its_changes_of_state() -> None:
    rig = Rig(per_second=10.0)
    for namespace in ("busy", "more"):
        for number in range(500):
            rig.schedule.request_write(JobKey(namespace, str(number)), STATE)
    rig.play(5.0)
    rig.schedule.request_write(JobKey("quiet", "a"), STATE)
    rig.schedule.request_write(JobKey("quiet", "b"), PROGRESS)
    assert [job.name for _, job in rig.play(1.0) if job.namespace == "quiet"] == ["a", "b"]


def test_a_namespace_that_has_used_what_others_left_has_its_share_when_they_come() -> None:
    rig = Rig(per_second=10.0)
    for _ in range(600):
        rig.schedule.request_write(JobKey("few", "a"), PROGRESS)
        for number in range(50):
            rig.schedule.request_write(JobKey("busy", str(number)), PROGRESS)
        rig.play(1.0)
    for number in range(100):
        rig.schedule.request_write(JobKey("others", str(number)), STATE)
    written = Counter(job.namespace for _, job in rig.play(4.0))
    assert written["busy"] >= 40 / 3 - 2


@pytest.mark.parametrize("seed", slow_after(1, range(10)))
def test_each_namespace_with_reports_gets_its_share_in_any_mix(seed: int) -> None:
    """Its most urgent report never waits for longer than one write of each namespace and one more take."""
    rng = random.Random(seed)
    namespaces = [f"n{number}" for number in range(rng.randint(2, 12))]
    rig = Rig(per_second=25.0)
    since: dict[str, float] = {}
    for _ in range(400):
        for namespace in rng.sample(namespaces, rng.randint(1, len(namespaces))):
            for _ in range(rng.choice([1, 1, 5, 40])):
                job = JobKey(namespace, str(rng.randint(0, 60)))
                rig.schedule.request_write(job, rng.choice(list(Urgency)))
        waiting = {key.namespace for key, entry in rig.schedule._wanted.items() if entry.at <= rig.now}
        for namespace in waiting:
            since.setdefault(namespace, rig.now)
        for _, job in rig.play(0.25):
            since.pop(job.namespace, None)
        assert all(rig.now - begin <= (len(namespaces) + 1) / 25.0 + 0.25 for begin in since.values())


def test_within_the_shares_urgency_decides_across_namespaces() -> None:
    rig = Rig(per_second=10.0)
    for number in range(50):
        rig.schedule.request_write(JobKey(f"n{number}", "a"), PROGRESS)
    rig.now += 0.5
    rig.schedule.request_write(JobKey("n99", "a"), STATE)
    assert rig.take() == JobKey("n99", "a")


def test_a_second_change_of_state_within_ten_seconds_counts_as_progress(rig: Rig) -> None:
    assert rig.schedule.request_write(A, STATE) is STATE
    assert rig.schedule.request_write(A, STATE) is STATE, "the first one is not written yet"
    assert rig.take() == A
    rig.now += 5.0
    assert rig.schedule.request_write(A, STATE) is PROGRESS
    rig.schedule.request_write(B, CHECKPOINT)
    assert [rig.take(), rig.take()] == [B, A]
    rig.now += STATE_SECONDS
    assert rig.schedule.request_write(A, STATE) is STATE
    rig.schedule.request_write(B, CHECKPOINT)
    assert rig.take() == A


def test_flapping_jobs_hold_up_no_progress_of_their_own_namespace_for_ever() -> None:
    """Thirty of them have three changes of state per second that count."""
    rig, written = Rig(25.0), Counter[str]()
    for _ in range(600):
        for number in range(30):
            rig.schedule.request_write(key(f"flapping-{number}"), STATE)
        for number in range(20):
            rig.schedule.request_write(key(f"honest-{number}"), PROGRESS)
        written.update(job.name.partition("-")[0] for _, job in rig.play(0.5))
    assert written["honest"] > 300 * 25 / 4


def test_drivers_hear_how_often_new_metrics_are_of_use() -> None:
    rig = Rig(per_second=10.0)
    assert rig.schedule.note_report(A) == 2.0, "a few jobs"
    heard = [rig.schedule.note_report(key(str(number))) for number in range(99)]
    assert heard[-1] == 10.0, "100 jobs share 10 writes per second"
    assert rig.schedule.note_report(A) == 10.0, "A counts once"
    for number in range(10_000):
        rig.schedule.note_report(key(f"more-{number}"))
    assert rig.schedule.note_report(A) == SILENCE_SECONDS, "a driver reports that often in any case"
    rig.now += 2 * SILENCE_SECONDS + 1
    assert rig.schedule.note_report(A) == 2.0, "those that have ended do not count"


def test_what_is_left_is_drained_in_order(rig: Rig) -> None:
    rig.schedule.request_write(A, STATE)
    rig.schedule.take()
    rig.schedule.request_write(B, PROGRESS)
    rig.schedule.request_write(C, CHECKPOINT)
    rig.schedule.request_write(A, PROGRESS)
    assert rig.schedule.drain() == [A, C, B]
    rig.schedule.done(A)
    assert rig.schedule.take() == math.inf


def test_nothing_is_kept_of_jobs_that_ended(rig: Rig) -> None:
    for number in range(1000):
        rig.schedule.request_write(key(str(number)), PROGRESS)
        rig.take()
        rig.now += 1.0
    assert len(rig.schedule._written._entries) <= 3
    assert len(rig.schedule._used) <= 1
    assert not rig.schedule._wanted
