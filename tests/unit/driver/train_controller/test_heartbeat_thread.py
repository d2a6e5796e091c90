"""What the controller makes of the ranks' answers."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.contract.answer import Answer
from railhead.contract.loss_rate import LossHistory
from railhead.contract.report import SlowRank, Steps
from railhead.driver.mailbox.heartbeat import MOST_GPUS, MOST_RANKS, NO_STEP, GpuUse, Heartbeat, Uploads
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.rank.steps import RankProgress
from railhead.driver.train_controller import heartbeat_thread
from railhead.driver.train_controller.heartbeat_thread import HeartbeatMerger
from railhead.driver.train_controller.worker_group import Group, RankAnswer
from tests.unit.driver.mailboxes import tell
from tests.waiting import wait_until


def beat(clock: float, *, optimizer: int = 0, calls: int = 0, **others: Any) -> RankAnswer[Any]:
    return RankAnswer(RankProgress(clock, optimizer, calls, **others))


def test_optimizer_steps_give_a_rate_but_no_step() -> None:
    pulse = HeartbeatMerger()
    pulse.add({0: beat(100.0, optimizer=10), 1: beat(5.0, optimizer=9)})
    found = pulse.add({0: beat(110.0, optimizer=25), 1: beat(15.0, optimizer=24)})
    assert found == Heartbeat(2, 49, 25, False, Steps(None, None, "1.5"), rank_steps=(25, 24))


def test_uploads_of_all_ranks_add_up_and_a_silent_rank_keeps_its_own() -> None:
    pulse = HeartbeatMerger()
    pulse.add({0: beat(0.0, uploads=Uploads(1, 2.0, 10)), 1: beat(0.0, uploads=Uploads(1, 3.0, 20))})
    found = pulse.add({0: beat(10.0, uploads=Uploads(2, 4.0, 30)), 1: RankAnswer()})
    assert found is not None and found.uploads == Uploads(3, 7.0, 50)


def test_uploads_are_the_last_ones_once_the_function_has_returned_on_all_ranks() -> None:
    pulse = HeartbeatMerger()
    found = pulse.add({0: beat(0.0, open_uploads=1, has_returned=True), 1: beat(0.0)})
    assert found is not None and found.last_uploads == 0
    found = pulse.add({0: RankAnswer(), 1: beat(10.0, has_returned=True)})
    assert found is not None and found.last_uploads == 1


def test_rank_0_tells_how_long_reports_have_blocked_it() -> None:
    pulse = HeartbeatMerger()
    found = pulse.add({0: RankAnswer(), 1: beat(0.0, blocked=9.0)})
    assert found is not None and found.blocked == 0.0
    found = pulse.add({0: beat(10.0, blocked=2.5), 1: beat(10.0, blocked=9.0)})
    assert found is not None and found.blocked == 2.5
    found = pulse.add({0: RankAnswer(), 1: beat(20.0, blocked=9.0)})
    assert found is not None and found.blocked == 2.5


def test_the_first_rank_whose_save_is_stuck_says_why() -> None:
    pulse = HeartbeatMerger()
    found = pulse.add({0: beat(0.0), 2: beat(0.0, stuck_save="two"), 1: beat(0.0, stuck_save="one")})
    assert found is not None and found.stuck_save == "one"
    found = pulse.add({0: beat(10.0), 2: beat(10.0), 1: beat(10.0)})
    assert found is not None and not found.stuck_save


def test_gpus_are_those_of_ranks_and_drivers_that_answer() -> None:
    first, second = GpuUse(0, 1, 2, 50), GpuUse(1, 1, 2, 60)
    pulse = HeartbeatMerger()
    found = pulse.add(
        {1: beat(100.0, gpus=(first, second), gpus_clock=95.0), 0: beat(100.0, gpus=(first,), gpus_clock=60.0)}
    )
    assert found is not None and found.gpus == (replace(first, rank=1), replace(second, rank=1))
    found = pulse.add({0: beat(110.0, gpus=(first, second), gpus_clock=105.0), 1: RankAnswer()})
    assert found is not None and found.gpus == (replace(first, rank=0), replace(second, rank=0))


def test_each_rank_has_the_step_that_it_has_told_or_counted_last() -> None:
    pulse = HeartbeatMerger()
    found = pulse.add({0: beat(1.0, optimizer=5), 2: beat(1.0, optimizer=5, step=105)})
    assert found is not None and found.rank_steps == (5, NO_STEP, 105)
    found = pulse.add({0: beat(9.0, optimizer=7), 2: RankAnswer()})
    assert found is not None and found.rank_steps == (7, NO_STEP, 105)


def test_a_heartbeat_has_a_bounded_number_of_ranks() -> None:
    found = HeartbeatMerger().add({MOST_RANKS + 3: beat(1.0)})
    assert found is not None and found.rank_steps == (NO_STEP,) * MOST_RANKS


def test_a_heartbeat_has_a_bounded_number_of_gpus() -> None:
    gpus = tuple(GpuUse(number, 1, 2, 3) for number in range(8))
    found = HeartbeatMerger().add({rank: beat(1.0, gpus=gpus, gpus_clock=1.0) for rank in range(100)})
    assert found is not None and len(found.gpus) == MOST_GPUS == 512


def test_progress_counts_before_the_optimizers() -> None:
    pulse = HeartbeatMerger()
    pulse.add({0: beat(0.0, optimizer=80, calls=10, step=1010, total=5000, tokens=1_000_000)})
    found = pulse.add({0: beat(10.0, optimizer=160, calls=20, step=1020, total=5000, tokens=2_048_000)})
    assert found is not None and found.steps == Steps(1020, 5000, "1", "104800")


def test_rates_begin_with_the_first_call_of_progress() -> None:
    pulse = HeartbeatMerger()
    pulse.add({0: beat(0.0)})
    pulse.add({0: beat(10.0, calls=1, step=1000, tokens=4096)})
    found = pulse.add({0: beat(20.0, calls=11, step=1010, tokens=8192)})
    assert found is not None and found.steps == Steps(1010, None, "1", "409.6")


def test_rates_are_of_the_last_minutes() -> None:
    pulse = HeartbeatMerger()
    for second in range(0, 1000, 10):
        pulse.add({0: beat(float(second), optimizer=second * 100)})
    found = [pulse.add({0: beat(float(second), optimizer=99_000)}) for second in range(1000, 1200, 10)]
    assert found[0] and found[0].steps.per_second == "91.67"
    assert found[-1] and found[-1].steps.per_second == "0"


@pytest.mark.parametrize(("rate", "text"), [(0.00084, "0.00084"), (12.346, "12.35"), (123456.0, "123456")])
def test_rates_are_decimal_numbers(rate: float, text: str) -> None:
    pulse = HeartbeatMerger()
    pulse.add({0: beat(0.0, calls=1, step=0, tokens=0)})
    found = pulse.add({0: beat(100_000.0 if rate < 1 else 100.0, calls=2, step=1, tokens=1)})
    assert found is not None
    begin, end = 0, round(rate * 100_000)
    assert heartbeat_thread._rate(begin, end, 100_000.0) == text


def test_a_run_that_begins_again_has_no_rate() -> None:
    pulse = HeartbeatMerger()
    pulse.add({0: beat(0.0, calls=9, step=50)})
    found = pulse.add({0: beat(10.0, calls=10, step=0)})
    assert found is not None and found.steps == Steps(0)


def test_a_rank_that_does_not_answer_is_where_it_was() -> None:
    pulse = HeartbeatMerger()
    assert pulse.add({0: RankAnswer(), 1: RankAnswer()}) is None
    pulse.add({0: beat(1.0, optimizer=30, open_reports=1), 1: beat(1.0, optimizer=30)})
    uploading = beat(11.0, optimizer=30, open_reports=1, open_uploads=1)
    found = pulse.add({0: uploading, 1: RankAnswer(error=RuntimeError("gone"))})
    assert found is not None and found.alive == 60
    assert found.is_uploading, "of those that answered"
    found = pulse.add({0: RankAnswer(), 1: RankAnswer()})
    assert found is not None and (found.alive, found.is_uploading) == (60, False)


@pytest.mark.parametrize(("uploads", "is_uploading"), [((0, 1), True), ((0, 0), False)])
def test_ranks_that_only_wait_for_each_other_in_reports_do_not_upload(
    uploads: tuple[int, int], is_uploading: bool
) -> None:
    """One has swallowed an error of its last report, and no report will end any more."""
    beats = {rank: beat(1.0, optimizer=30, open_reports=1, open_uploads=uploads[rank]) for rank in range(2)}
    found = HeartbeatMerger().add(beats)
    assert found is not None and found.is_uploading is is_uploading


class Workers:
    """A worker group of two ranks, which ends after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def get_workers(self) -> list[Any]:
        return [SimpleNamespace(), SimpleNamespace()]


def test_the_thread_ends_with_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, asked, known = Mailbox(tmp_path), list[Any](), list[Any]()
    losses, told = LossHistory(2, 7200.0), list[Any]()
    tell(mailbox.driver, answer=Answer(losses=losses))
    groups: list[Any] = [Workers(2), Workers(1)]
    group = Group(worker_group=groups[0])
    tell(mailbox.controller, heartbeat=Heartbeat(9, 9, 9, False, Steps()))

    def ask(
        worker_group: Workers, ranks: Any, function: Any, *, each: Any, timeout: float
    ) -> dict[int, RankAnswer[Any]]:
        told.append(each)
        known.append(mailbox.controller.read().heartbeat)
        asked.append(worker_group)
        worker_group.rounds -= 1
        if worker_group.rounds < 0:
            raise ValueError("the worker group is not active")
        if worker_group.rounds == 0:
            group.worker_group = groups[1]
        return {rank: beat(1.0, optimizer=len(asked), tracker_url=f"http://t/{rank}" if rank else "") for rank in ranks}

    monkeypatch.setattr(heartbeat_thread, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(heartbeat_thread, "call_ranks", ask)
    heartbeat_thread.watch_steps(group, groups[0], mailbox)
    wait_until("the end of the thread", lambda: not find_threads())
    assert asked == [groups[0]] * 2, "another group trains now"
    assert known[0] is None, "not that of the group before"
    assert told == [{0: (losses,), 1: (losses,)}] * 2, "ranks learn of the losses"
    found = mailbox.controller.read().heartbeat
    assert found is not None and (found.number, found.alive) == (1, 2)
    assert mailbox.controller.read().tracker_url == "http://t/1", "of the first rank that has one"
    heartbeat_thread.watch_steps(group, groups[1], mailbox)
    wait_until("the end of the thread", lambda: not find_threads())
    assert asked[2:] == [groups[1]] * 2, "its group was shut down"


def test_slow_ranks_have_the_names_of_their_pods() -> None:
    group = Group()
    workers: list[Any] = [SimpleNamespace(metadata=SimpleNamespace(hostname=f"w{rank}")) for rank in range(3)]
    group.note_workers(workers)
    found = heartbeat_thread.name_pods(group, [SlowRank(1, score="0.6", since="t"), SlowRank(5)])
    assert found == (SlowRank(1, "w1", "0.6", "t"),), "the group has no rank 5 any more"


def find_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "railhead-heartbeat"]
