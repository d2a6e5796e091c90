"""The mailbox between the processes of a head pod: each field, threads, kills, requests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.answer import Answer
from railhead.contract.failure import Failure, FailureClass, FailureRule
from railhead.contract.metric_rule import MetricRule
from railhead.contract.report import CommittedCheckpoint, RestartInPlace, RunWarning, Steps
from railhead.driver.mailbox.heartbeat import GpuUse, Heartbeat, Uploads
from railhead.driver.mailbox.mailbox import Mailbox, wake
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import Fit, FromController, FromDriver, FromScript, Hang, Stack
from tests.unit.driver.mailboxes import tell

FAILURE = Failure(FailureClass.APPLICATION, "ValueError", "rank 3: no", process_exit_code=7)

FULL_CONTROLLER = FromController(
    progress=Progress(
        state="RUNNING",
        has_run=True,
        reports=4,
        commits=2,
        metrics={"loss": "0.3"},
        checkpoint=CommittedCheckpoint(uri="/runs/r/c1", index=1, time="t", attempt=2, metrics={"loss": "0.3"}),
        processes=("a-1", "a-2"),
        run_uri="/runs/r",
        resumed_from="/runs/r/c0",
        warning=RunWarning("A", "a"),
    ),
    failure=FAILURE,
    has_returned=True,
    restart=RestartInPlace(number=2, charged=1, cause="Application"),
    restarts={"Application": 1, "Hang": 1},
    lost_pods=("w-1", "w-2"),
    warning=RunWarning("B", "b"),
    rule_warning=RunWarning("MetricRule", "rule nan: loss is NaN"),
    heartbeat=Heartbeat(
        number=3,
        alive=9,
        most=4,
        is_uploading=True,
        steps=Steps(7, 100, "1.5", "30"),
        uploads=Uploads(1, 0.5, 9),
        gpus=(GpuUse(0, 1, 2, 50, rank=3),),
    ),
    hangs_taken=1,
    tracker_url="https://t/runs/1",
    validations="the validation of checkpoint_1",
)
FULL_DRIVER = FromDriver(
    answer=Answer(
        progress_deadline_seconds=600,
        hang_policy="Restart",
        restarts_in_place=3,
        failure_rules=(FailureRule(action="Fail", reasons=("OutOfMemory",), exit_codes=(3, 4)),),
        metric_rules=(MetricRule("slow", "RateBelow", "Warn", threshold="60%", window_seconds=600, consecutive=2),),
    ),
    end=12.5,
    hang=Hang(2, "rank 3 hangs", "NoSteps", rank=3),
    read_fits=2,
)
FULL_SCRIPT = FromScript(Fit(2, True, FAILURE), RunWarning("C", "c"))


@pytest.mark.parametrize(
    ("name", "value"), [("controller", FULL_CONTROLLER), ("driver", FULL_DRIVER), ("script", FULL_SCRIPT)]
)
def test_each_field_arrives(tmp_path: Path, name: str, value: Any) -> None:
    defaults = type(value)()
    fields = [field for field in vars(value) if getattr(value, field) == getattr(defaults, field)]
    assert not fields, "this test does not set them"
    getattr(Mailbox(tmp_path), name).change(lambda _: value)
    assert getattr(Mailbox(tmp_path), name).read() == value


@given(st.lists(st.one_of(st.integers(0, 9), st.none()), max_size=12))
def test_any_order_of_changes_and_reads_finds_the_last_change(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | None]
) -> None:
    folder = tmp_path_factory.mktemp("mailbox")
    writer, reader = Mailbox(folder), Mailbox(folder)
    last: int | None = None
    for step in steps:
        if step is None:
            assert reader.driver.read() == FromDriver(answer=Answer(restarts_in_place=last))
        else:
            tell(writer.driver, answer=Answer(restarts_in_place=step))
            last = step


def test_a_reader_beside_threads_that_write_finds_no_half_value_and_no_change_is_lost(tmp_path: Path) -> None:
    mailbox, has_ended = Mailbox(tmp_path), threading.Event()

    def write() -> None:
        for _ in range(100):
            mailbox.controller.change(
                lambda value: replace(
                    value, hangs_taken=value.hangs_taken + 1, lost_pods=("x" * 999,) * (value.hangs_taken + 1)
                )
            )

    def read() -> None:
        while not has_ended.is_set():
            value = mailbox.controller.read()
            seen.append(value.hangs_taken)
            assert len(value.lost_pods) == value.hangs_taken

    seen: list[int] = []
    writers = [threading.Thread(target=write) for _ in range(2)]
    reader = threading.Thread(target=read)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    has_ended.set()
    reader.join()
    assert seen == sorted(seen)
    assert mailbox.controller.read().hangs_taken == 200


_DIES_BEFORE_RENAME = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from railhead.driver.mailbox.mailbox import Mailbox
os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
Mailbox(Path(sys.argv[1])).driver.change(lambda value: replace(value, read_fits=2))
"""


def test_a_writer_that_is_killed_before_the_rename_leaves_the_old_value(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    tell(mailbox.driver, read_fits=1)
    ended = subprocess.run([sys.executable, "-c", _DIES_BEFORE_RENAME, str(tmp_path)], env=dict(os.environ))
    assert ended.returncode == -signal.SIGKILL
    assert mailbox.driver.read().read_fits == 1
    tell(mailbox.driver, read_fits=3)  # its lock died with it
    assert mailbox.driver.read().read_fits == 3


def test_a_fit_continues_the_counts_of_the_one_before_it_but_not_its_end(tmp_path: Path) -> None:
    Mailbox(tmp_path).controller.change(lambda _: FULL_CONTROLLER)
    second = Mailbox(tmp_path, fit=2).controller
    own = FromController()
    assert second.read() == replace(
        FULL_CONTROLLER,
        failure=own.failure,
        has_returned=own.has_returned,
        heartbeat=own.heartbeat,
        rule_warning=own.rule_warning,
        tracker_url=own.tracker_url,
        validations=own.validations,
    )
    tell(second, hangs_taken=2)
    assert Mailbox(tmp_path, fit=3).controller.read().hangs_taken == 2
    assert Mailbox(tmp_path).controller.read() == FULL_CONTROLLER


@pytest.mark.parametrize(("fit", "expected"), [(None, 1), (Fit(0, True, FAILURE), 1), (Fit(2), 2)])
def test_the_newest_fit_is_the_scripts_last_one(tmp_path: Path, fit: Fit | None, expected: int) -> None:
    mailbox = Mailbox(tmp_path)
    for number in (1, 2):
        tell(Mailbox(tmp_path, fit=number).controller, hangs_taken=number)
    tell(mailbox.script, fit=fit)
    assert mailbox.read_newest_fit().hangs_taken == expected


def test_each_requester_gets_the_stacks_that_are_collected_once(tmp_path: Path) -> None:
    mailbox, calls = Mailbox(tmp_path), []

    def collect() -> list[Stack]:
        calls.append(1)
        return [Stack(0, "w-0", "train.py:3", "text"), Stack(1)]

    mailbox.answer_requests(collect)
    assert not calls
    for requester in ("deadline", "exec-7"):
        mailbox.ask_for_stacks(requester)
    assert mailbox.read_stacks("exec-7") is None
    mailbox.answer_requests(collect)
    mailbox.answer_requests(collect)
    assert len(calls) == 1
    for requester in ("deadline", "exec-7"):
        assert mailbox.read_stacks(requester) == collect()
    mailbox.ask_for_stacks("deadline")
    assert mailbox.read_stacks("deadline") is None, "an old answer is none to a new request"
    assert mailbox.read_stacks("exec-7") is not None


def test_a_change_wakes_the_driver_and_one_that_changes_nothing_does_not(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    with mailbox.open_socket() as receiver:
        receiver.setblocking(False)
        tell(mailbox.script, warning=None)
        with pytest.raises(BlockingIOError):
            receiver.recv(16)
        tell(mailbox.script, warning=RunWarning("A", "a"))
        assert receiver.recv(16)
    wake(tmp_path)  # without a driver: no error
