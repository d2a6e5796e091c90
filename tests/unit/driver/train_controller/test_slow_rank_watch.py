"""Who computes slowly, by recorded rounds of heartbeats: 10 s each, of training whose steps have any length."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from railhead.contract.report import MAX_SLOW_RANKS, SlowRank
from railhead.driver.rank.steps import RankProgress
from railhead.driver.train_controller.slow_rank_watch import FIRST_SECTIONS, SlowRankWatch
from tests.slow_cases import slow_after

ROUND_SECONDS = 10.0
Section = Callable[[int, float], float]  # (rank, when) -> seconds of a section that ends then


@dataclass
class Training:
    """Ranks that make steps together: each step takes as long as the slowest rank's section, and `step` at least."""

    section: Section
    ranks: int = 4
    step: float = 0.05
    watch: SlowRankWatch = field(default_factory=SlowRankWatch)
    now: float = 0.0
    beats: dict[int, RankProgress] = field(default_factory=dict)
    changes: list[tuple[int, Sequence[int]]] = field(default_factory=list)  # (minute, who is shown from then on)

    def train(self, minutes: float, *, present: Sequence[int] = ()) -> list[int]:
        """Returns who is slow at the end."""
        return [each.rank for each in self.show(minutes, present=present)]

    def show(self, minutes: float, *, present: Sequence[int] = ()) -> Sequence[SlowRank]:
        shown: Sequence[SlowRank] = ()
        end, look = self.now + minutes * 60, self.now + ROUND_SECONDS
        while self.now < end:
            times = {rank: self.section(rank, self.now) for rank in present or range(self.ranks)}
            for rank, seconds in times.items():
                beat = self.beats.get(rank, RankProgress())
                self.beats[rank] = replace(
                    beat, sections=beat.sections + 1, section_seconds=beat.section_seconds + seconds
                )
            self.now += max(self.step, *times.values())
            if self.now >= look:
                look = self.now + ROUND_SECONDS
                shown = self.watch.look(self.beats, now=self.now, time=f"t{self.now / 60:.0f}")
                self.note([each.rank for each in shown])
        return shown

    def note(self, shown: Sequence[int]) -> None:
        if shown != (self.changes[-1][1] if self.changes else []):
            self.changes.append((round(self.now / 60), shown))


def make_noise(amount: float, seed: int = 7) -> Callable[[], float]:
    source = random.Random(seed)
    return lambda: max(0.01, source.gauss(1.0, amount))


def at_pace(paces: Mapping[int, float], noise: Callable[[], float], *, since: float = 0.0) -> Section:
    """These ranks have this pace from a minute on, all others 1."""
    return lambda rank, now: 0.4 * noise() / (paces.get(rank, 1.0) if now >= since * 60 else 1.0)


@pytest.mark.parametrize("ranks", slow_after(4, [1, 2, 4, 16, 64]))
@pytest.mark.parametrize("amount", [0.05, 0.5], ids=["5 % noise", "50 % noise"])
def test_equal_ranks_are_never_named_however_unequal_their_batches(ranks: int, amount: float) -> None:
    training = Training(at_pace({}, make_noise(amount)), ranks, step=3.0)
    training.train(60)
    assert training.changes == []


@pytest.mark.parametrize("ranks", slow_after(4, [2, 3, 4, 16, 64]))
def test_a_rank_that_is_30_percent_slower_is_named_after_ten_minutes_and_as_long_as_it_lasts(ranks: int) -> None:
    training = Training(at_pace({1: 0.7}, make_noise(0.05)), ranks, step=1.0)
    training.train(30)
    assert training.changes == [(10, [1])]
    [slow] = training.show(1)
    assert (slow.rank, slow.pod) == (1, "") and float(slow.score) == pytest.approx(0.7, abs=0.03)
    assert slow.since == "t0"
    training.section = at_pace({}, make_noise(0.05))
    assert training.train(3) == []


def test_a_rank_at_80_percent_is_not_slow_enough() -> None:
    assert Training(at_pace({1: 0.8}, make_noise(0.05)), step=1.0).train(30) == []


def test_when_all_ranks_become_slower_each_is_slow_by_its_own_best() -> None:
    training = Training(at_pace(dict.fromkeys(range(4), 0.6), make_noise(0.05), since=30), step=1.0)
    assert training.train(29) == []
    assert training.train(13) == [0, 1, 2, 3]
    assert {each.since for each in training.show(1)} <= {"t29", "t30", "t31"}


def test_one_fast_rank_makes_no_other_one_slow() -> None:
    assert Training(at_pace({2: 2.0}, make_noise(0.05)), step=1.0).train(30) == []


def test_one_slow_minute_in_ten_begins_and_ends_nothing() -> None:
    noise = make_noise(0.05)
    training = Training(lambda rank, now: 0.4 * noise() * (3 if rank == 1 and now // 60 % 10 == 3 else 1), step=1.0)
    training.train(60)
    assert training.changes == []
    training = Training(lambda rank, now: 0.4 * noise() * (1 if now // 60 % 9 == 8 else 1 + rank % 2), step=1.0)
    training.train(60)
    assert training.changes == [], "nine minutes are none"


@pytest.mark.parametrize("step", [0.5, 45.0, 200.0])
def test_steps_of_irregular_length_compare_like_others(step: float) -> None:
    noise, lengths = make_noise(0.05), random.Random(1)

    def section(rank: int, now: float) -> float:
        return step * 0.4 * noise() / (0.6 if rank == 1 else 1.0)

    training = Training(section, step=step)
    for _ in range(40):
        training.step = step * lengths.uniform(0.8, 3.0)
        training.train(5)
    assert [who for _, who in training.changes] == [[1]]


def test_a_new_group_begins_again() -> None:
    training = Training(at_pace({1: 0.7}, make_noise(0.05)), step=1.0)
    assert training.train(12) == [1]
    training.watch, training.beats, training.changes, training.now = SlowRankWatch(), {}, [], 0.0
    training.train(20)
    assert training.changes == [(10, [1])]


def test_a_rank_that_joins_late_is_compared_from_then_on() -> None:
    training = Training(at_pace({3: 0.7}, make_noise(0.05)), step=1.0)
    assert training.train(15, present=[0, 1, 2]) == []
    training.train(15)
    assert [who for _, who in training.changes] == [[3]]
    assert training.changes[0][0] in (25, 26)


def test_a_process_that_begins_again_is_another_one() -> None:
    training = Training(at_pace({1: 0.7}, make_noise(0.05)), step=1.0)
    assert training.train(8) == []
    training.beats[1] = RankProgress()
    training.train(12)
    assert [who for _, who in training.changes] == [[1]]
    assert training.changes[0][0] >= 18


def test_first_sections_do_not_count() -> None:
    """They compile: 20 of them take an hour."""
    noise = make_noise(0.05)
    training = Training(lambda rank, now: 180.0 if rank == 1 and now < 3500 else 0.4 * noise(), step=1.0)
    training.train(90)
    assert training.beats[1].sections > FIRST_SECTIONS and training.changes == []


def test_without_sections_nothing_is_said() -> None:
    watch = SlowRankWatch()
    beats = {rank: RankProgress(optimizer=99) for rank in range(4)}
    assert not any(watch.look(beats, now=10.0 * number, time="t") for number in range(200))


def test_a_pause_of_the_head_is_no_time_in_which_a_rank_was_slow() -> None:
    training = Training(at_pace({1: 0.7}, make_noise(0.05)), step=1.0)
    assert training.train(5) == []
    training.now += 3600
    assert training.train(2) == []
    assert training.train(4) == [1]


def test_who_is_slow_changes_at_most_once_in_ten_minutes_and_has_a_bound() -> None:
    paces = {rank: 0.7 - rank / 100 for rank in range(12)}
    noise, limits = make_noise(0.02), random.Random(3)
    begins = {rank: limits.uniform(0, 90) for rank in paces}
    training = Training(
        lambda rank, now: 0.4 * noise() / (paces[rank] if rank in paces and now >= begins[rank] * 60 else 1.0), 40, 3.0
    )
    training.train(130)
    minutes = [minute for minute, _ in training.changes]
    assert len(minutes) > 3 and all(after - before >= 9 for before, after in itertools.pairwise(minutes))
    assert len(training.changes[-1][1]) == MAX_SLOW_RANKS
    for (_, before), (_, after) in itertools.pairwise(training.changes):
        assert set(before) <= set(after), "those that are shown stay"
