"""Hang detection: how long training reports nothing, and the message about it."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from railhead.contract.answer import RESTART_AT_HANG, Answer
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import NO_STEPS, Report, Steps
from railhead.driver.head import hang_watch
from railhead.driver.head import stacks as stacks_module
from railhead.driver.head.end_attempt import is_premature
from railhead.driver.head.hang_watch import HangDetector, Suspicion, explain_hang, watch_for_hang
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.stacks import describe_stacks, find_lone_rank
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import Hang, Stack
from railhead.driver.rank import rank_stacks
from railhead.driver.rank.rank_stacks import describe_place, read_stacks
from railhead.driver.rank.run_rank import BEGUN, RankEnd
from tests.unit.driver.mailboxes import tell

TRAINING = Progress(state="RUNNING", is_training=True, reports=3, processes=("a-1",))
SILENT = Suspicion(
    "training reported nothing for 600 s (spec.progressDeadlineSeconds)", "Raise it.", "ProgressDeadlineExceeded", True
)


def rank(number: int, place: str, stack: str = "s", pod: str = "w") -> Stack:
    return Stack(number, f"{pod}{number}", place, stack)


class Head:
    """The driver's end of the mailbox and the controller's, in a head that trains."""

    def __init__(self, folder: Path, *, deadline: float | None = None) -> None:
        self.mailbox = Mailbox(folder)
        base = Report("ns", "n", "u", 1, "STARTING")
        self.publisher = Publisher(endpoint=None, mailbox=self.mailbox, base=base, answer=Answer(deadline))
        self.endings: list[Failure] = []
        self.set_progress(TRAINING)

    def watch(self) -> None:
        watch_for_hang(self.mailbox, self.publisher, on_fatal=self.endings.append)

    def set_progress(self, progress: Progress) -> None:
        tell(self.mailbox.controller, progress=progress)

    def take_hang(self) -> Hang | None:
        """As Ray Train's controller does at a poll."""
        hang = self.mailbox.driver.read().hang
        if hang is None or hang.number <= self.mailbox.controller.read().hangs_taken:
            return None
        tell(self.mailbox.controller, hangs_taken=hang.number)
        return hang


def test_counts_from_the_last_report_of_a_training_group() -> None:
    detector = HangDetector()
    assert detector.count(TRAINING, now=100.0) == 0
    assert detector.count(TRAINING, now=102.0) == 2
    assert detector.count(TRAINING, now=104.0) == 4
    reported = replace(TRAINING, reports=4)
    assert detector.count(reported, now=105.0) == 0
    assert detector.count(reported, now=107.0) == 2
    assert detector.count(replace(reported, is_training=False), now=108.0) == 0
    assert detector.count(reported, now=110.0) == 0, "training resumes now"
    assert detector.count(reported, now=112.0) == 2
    assert detector.count(replace(reported, processes=("a-2",)), now=113.0) == 0, "another group"


def test_does_not_count_the_time_while_the_driver_was_paused() -> None:
    detector = HangDetector()
    detector.count(TRAINING, now=0.0)
    assert detector.count(TRAINING, now=36_000.0) == hang_watch.LONGEST_LOOK_SECONDS


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_watch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(hang_watch, "STACKS_SECONDS", 0.1)


@pytest.mark.parametrize(("policy", "ends"), [("Warn", False), (RESTART_AT_HANG, True)])
def test_a_validation_after_training_is_shown_then_suspected_and_ends_the_attempt_by_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, ends: bool
) -> None:
    head, now, shown = Head(tmp_path, deadline=600), [0.0], dict[str, float]()
    head.publisher.answer = Answer(600, hang_policy=policy)
    tell(head.mailbox.controller, progress=replace(TRAINING, is_training=False), validations="the validation of a")

    class Over(Exception):
        pass

    def sleep(seconds: float) -> None:
        now[0] += seconds
        report = head.publisher.build_report()
        if report.finishing:
            shown.setdefault("status", now[0])
        if report.warning is not None and report.warning.reason == NO_STEPS:
            assert report.warning.message.startswith(report.finishing) and "timeout_s" in report.warning.message
            shown.setdefault("condition", now[0])
        if now[0] > 4500:
            raise Over

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0])
    monkeypatch.setattr(hang_watch, "time", clock)
    monkeypatch.setattr(stacks_module, "time", clock)
    monkeypatch.setattr(hang_watch, "LOOK_SECONDS", 5.0)
    with contextlib.suppress(Over):
        head.watch()
    assert 30 <= shown["status"] <= 45 and 1800 <= shown["condition"] <= 1900
    assert (now[0] <= 4500) == ends
    if ends:
        [ending] = head.endings
        assert 3600 <= now[0] <= 3700 and (ending.class_, ending.reason) == (FailureClass.HANG, NO_STEPS)
        assert "Ray Train waits for the validation of a." in ending.message


@pytest.mark.usefixtures("quick")
def test_uses_the_latest_deadline(tmp_path: Path) -> None:
    head = Head(tmp_path, deadline=0.02)
    head.publisher.answer = Answer(None)
    watch = threading.Thread(target=head.watch)
    watch.start()
    watch.join(0.3)
    assert watch.is_alive() and not head.endings, "the deadline was removed"
    head.publisher.answer = Answer(0.05)
    watch.join(10)
    [ending] = head.endings
    assert (ending.class_, ending.reason) == (FailureClass.HANG, "ProgressDeadlineExceeded")
    assert is_premature(ending)
    assert "controller does not respond" in ending.message


def test_a_controller_that_responds_handles_the_hang_and_the_count_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller takes the hang twice and does not respond the third time."""
    head, taken, now = Head(tmp_path, deadline=600), list[Hang](), [0.0]
    stacks = [rank(0, "at t.py:4 in load"), rank(1, "at t.py:9"), rank(2, "at t.py:9")]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        head.mailbox.answer_requests(lambda: stacks)
        if len(taken) < 2:
            taken.extend(filter(None, [head.take_hang()]))

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0])
    monkeypatch.setattr(hang_watch, "time", clock)
    monkeypatch.setattr(stacks_module, "time", clock)
    monkeypatch.setattr(hang_watch, "LOOK_SECONDS", 5.0)
    head.watch()
    assert len(taken) == 2 and all("rank 0 (pod w0) is at t.py:4 in load" in each.message for each in taken)
    assert [each.rank for each in taken] == [0, 0]
    [ending] = head.endings
    assert "at t.py:4 in load" in ending.message and head.take_hang() is None
    assert ending.suspect_pod == "w0"
    assert now[0] > 3 * 600, "the full deadline each time"


@pytest.mark.usefixtures("quick")
def test_a_report_while_stacks_are_collected_cancels_the_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, is_done = Head(tmp_path, deadline=0.05), threading.Event()

    def log(text: str) -> None:
        if "reported nothing" in text and not is_done.is_set():
            head.set_progress(replace(TRAINING, reports=head.mailbox.controller.read().progress.reports + 1))
            head.publisher.answer = Answer(None)

    monkeypatch.setattr(hang_watch, "log", log)
    watch = threading.Thread(target=head.watch, daemon=True)
    watch.start()
    watch.join(0.5)
    assert watch.is_alive() and not head.endings
    is_done.set()  # now the thread ends
    head.publisher.answer = Answer(0.01)
    watch.join(10)
    assert not watch.is_alive()


def test_the_message_names_the_smallest_groups_of_ranks_first() -> None:
    waits = [rank(number, "at t.py:9 in step, inside torch") for number in (0, 2, 3, 5)]
    message = explain_hang([*waits, rank(1, "at t.py:4 in load"), rank(4, "", "")], SILENT)
    assert message.startswith(
        "training reported nothing for 600 s (spec.progressDeadlineSeconds): rank 1 (pod w1) is at t.py:4 in load; "
        "rank 4 (pod w4) does not respond; ranks 0, 2-3 and 5 are at t.py:9 in step, inside torch. "
    )
    demand = "Ray waits to start 1 task or actor that needs 1 GPU, which no pod has"
    assert f"in load. {demand}. The stacks are" in explain_hang([rank(1, "at t.py:4 in load")], SILENT, demand)
    many = explain_hang([rank(number, f"at t.py:{number}") for number in range(9)], SILENT)
    assert "and 6 more places" in many


def test_a_hang_has_a_suspect_only_if_one_rank_is_elsewhere_than_all_others() -> None:
    wait, also = "at t.py:9 in step, inside torch", "at t.py:7 in step, inside torch"
    places = {
        (wait, wait, "at t.py:4 in load", wait): 2,
        (wait, wait, ""): 2,
        (wait, also, wait, also, "at t.py:4 in load"): 4,
        (wait, wait): None,
        (wait, "at t.py:4 in load"): None,
        (wait, wait, "at t.py:4 in load", ""): None,
        (wait,): None,
        (): None,
    }
    for given, expected in places.items():
        odd = find_lone_rank([rank(number, place) for number, place in enumerate(given)])
        assert (odd and odd.rank) == expected, given


def test_equal_stacks_are_shown_once() -> None:
    lines = describe_stacks([rank(0, "p", "a\nb"), rank(1, "p", "a\nb"), rank(2, "q", "")])
    assert lines[:2] == [
        "stack of rank 2 (pod w2):",
        "  no response: native code holds the GIL, or the process is stopped",
    ]
    assert lines[2:] == ["stack of ranks 0-1:", "  a", "  b"]
    assert describe_stacks(None) == []


def test_stacks_show_the_place_of_the_training_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_stacks, "read_end", lambda: RankEnd(BEGUN))  # other tests have run a rank in this process
    reached, release = threading.Event(), threading.Event()

    def train_func() -> None:
        reached.set()
        release.wait()

    thread = threading.Thread(target=train_func, name="TrainingThread(train_func)")
    thread.start()
    try:
        assert reached.wait(10)
        found = read_stacks()
    finally:
        release.set()
        thread.join()
    assert found.place.startswith("at test_hang_watch.py:")
    assert found.place.endswith("in train_func, inside threading")
    assert found.text.startswith("TrainingThread(train_func)\n")
    assert "release.wait()" in found.text


def test_a_stack_without_frames_has_no_place() -> None:
    assert describe_place(traceback.extract_stack(sys._getframe()))
    assert describe_place([]) == ""


class Stopped(Exception):
    """The test has seen enough."""


class Ranks(Head):
    """Two ranks in simulated time: a round every 10 s, steps until `still`, and where rank 1 stands then."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.now, self.number, self.steps = 0.0, 0, 0
        self.still, self.until = 600.0, 6000.0
        self.stack = "s"
        self.logged: list[str] = []
        self.hangs: list[tuple[float, Hang]] = []
        self.warned: list[tuple[float, bool]] = []
        time = SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.now)
        monkeypatch.setattr(hang_watch, "time", time)
        monkeypatch.setattr(stacks_module, "time", time)
        monkeypatch.setattr(hang_watch, "log", self.logged.append)

    def collect(self) -> list[Stack]:
        return [rank(0, "at t.py:9 in step, inside torch"), rank(1, "at t.py:4 in load", self.stack)]

    def sleep(self, seconds: float) -> None:
        self.now += 5.0 if seconds == hang_watch.LOOK_SECONDS else seconds
        if self.now > self.until:
            raise Stopped
        if self.now // 10 > self.number:
            self.number += 1
            self.steps += 10 if self.now < self.still else 0
            beat = Heartbeat(self.number, 2 * self.steps, self.steps, False, Steps(self.steps))
            tell(self.mailbox.controller, heartbeat=beat)
        self.mailbox.answer_requests(self.collect)
        is_shown = self.publisher.build_report().warning is not None
        if is_shown != (bool(self.warned) and self.warned[-1][1]):
            self.warned.append((self.now, is_shown))
        hang = self.take_hang()
        if hang is not None:
            self.hangs.append((self.now, hang))
            self.still = self.now + 600  # the group begins again, and hangs again
            self.steps = 0

    def watch(self) -> None:
        with pytest.raises(Stopped):
            super().watch()


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(tmp_path, monkeypatch)


def test_ranks_that_stop_stepping_are_shown_and_nothing_ends(ranks: Ranks) -> None:
    ranks.watch()
    [(at, _)] = ranks.warned
    assert 1190 <= at <= 1230, "10 minutes after the last step"
    warning = ranks.publisher.build_report().warning
    assert warning is not None and warning.reason == NO_STEPS
    assert "no rank made a step for 60" in warning.message
    assert "rank 0 (pod w0) is at t.py:9 in step, inside torch; rank 1 (pod w1) is at t.py:4 in load" in warning.message
    assert not ranks.hangs and not ranks.endings
    assert ranks.logged.count("stack of rank 1 (pod w1):") <= 1, "the stacks are collected once"


def test_steps_end_the_suspicion(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = ranks.sleep

    def go_on(seconds: float) -> None:
        ranks.still = 1e9 if ranks.now > 2000 else ranks.still
        sleep(seconds)

    clock = SimpleNamespace(sleep=go_on, monotonic=lambda: ranks.now)
    monkeypatch.setattr(hang_watch, "time", clock)
    monkeypatch.setattr(stacks_module, "time", clock)
    ranks.watch()
    assert [is_shown for _, is_shown in ranks.warned] == [True, False]


def test_with_restart_the_group_restarts_after_twice_the_window_and_each_time_later(ranks: Ranks) -> None:
    ranks.publisher.answer = Answer(hang_policy="Restart")
    ranks.until = 12_000
    ranks.watch()
    (first, hang), (second, _) = ranks.hangs
    assert 1790 <= first <= 1860, "20 minutes after the last step"
    assert hang.reason == "NoSteps" and "rank 1 (pod w1) is at t.py:4 in load" in hang.message
    assert second - first >= 6 * 1200, "the run may have such gaps"
    assert not ranks.endings


def test_a_rank_in_a_debugger_is_not_restarted(ranks: Ranks) -> None:
    ranks.publisher.answer = Answer(hang_policy="Restart")
    ranks.stack = 'File "/usr/lib/python3.11/pdb.py", line 1, in interaction'
    ranks.watch()
    assert not ranks.hangs and len(ranks.warned) == 1


def test_a_controller_that_does_not_take_the_hang_ends_the_attempt(ranks: Ranks) -> None:
    ranks.publisher.answer = Answer(hang_policy="Restart")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "take_hang", lambda: None)
        Head.watch(ranks)
    [ending] = ranks.endings
    assert (ending.class_, ending.reason) == (FailureClass.HANG, NO_STEPS)
