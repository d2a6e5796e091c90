"""Saves that choose their time: what is committed is complete, and storage that does not answer ends nothing."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_saver

from railhead.contract.loss_rate import NO_LOSSES, LossHistory
from railhead.driver.rank import steps
from railhead.training import _checkpoints, _paced_saves, _save_pace, _storage_files, dcp
from tests.unit.training.ranks import Rank, run_ranks
from tests.unit.training.test_dcp import make_state, read_error, read_state

DEADLINE = 2e9  # of a notice
SECONDS = 60.0  # the most that a test waits for something that must happen


def train(
    me: Rank, every: Any, *, until: Any, state: dict[str, Any] | None = None, step_seconds: float = 0.001
) -> list[int]:
    """Calls save in each step until `until()` holds on all ranks. The steps on which a save began."""
    state = state or make_state(weight=1.0, step=0)
    begun, step, end = list[int](), 0, time.monotonic() + SECONDS
    while not agree(until()):
        assert time.monotonic() < end, "it did not happen"
        step += 1
        state["model"]["weight"].fill_(float(step))
        state["model"]["bias"].fill_(float(step))
        state["counter"].value = state["step"] = step
        if dcp.save(lambda: state, metrics=lambda step=step: {"step": step}, every=every):  # type: ignore[misc]
            begun.append(step)
        time.sleep(step_seconds)
    return begun


def agree(holds: bool) -> bool:
    flag = torch.tensor([int(holds)])
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag.item())


def read_metadata(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def save_continuously(rank: int, folder: str) -> tuple[list[int], list[tuple[dict[str, Any], str]]]:
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder)
    begun = train(me, "continuous", until=lambda: me.reports.qsize() >= 3)
    state = make_state(weight=99.0, step=99)
    dcp.save(state, metrics={"step": 99})
    return begun, me.finish_uploads()


def load_one(rank: int, folder: str, checkpoint: str) -> Any:
    Rank(folder, checkpoint=checkpoint)
    state = make_state(weight=-1.0, step=-1)
    return dcp.load(state), read_state(state)


def test_each_commit_is_one_moment_of_all_ranks_and_the_last_save_commits_what_is_being_written(tmp_path: Path) -> None:
    (begun, zero), (also_begun, one) = run_ranks(2, save_continuously, tmp_path, str(tmp_path))
    assert begun == also_begun and zero == one
    steps = [metrics["step"] for metrics, _ in zero]
    assert steps == [*begun, 99], "each save that began is committed, and then the end"
    for (_, folder), step in zip(zero[:-1], steps, strict=False):
        assert {".metadata", "__0_0.distcp", "__1_0.distcp"} == read_metadata(folder)
        wanted = (True, ([float(step)] * 12, [float(step)] * 2, step, step))
        assert run_ranks(1, load_one, tmp_path, str(tmp_path), folder) == [wanted]


@contextmanager
def hanging_write() -> Iterator[threading.Event]:
    """Storage that does not answer the first write of this rank before the end of the block, even if that raises.

    Yields an event: the write has begun.
    """
    begun = threading.Event()
    released = threading.Event()
    numbers = itertools.count()
    answer = _storage_files.WriteProgress.add

    def add(progress: _storage_files.WriteProgress, size: int) -> None:
        if next(numbers) == 0:
            begun.set()
            released.wait()
        answer(progress, size)

    setattr(_storage_files.WriteProgress, "add", add)  # noqa: B010
    try:
        yield begun
    finally:
        released.set()


def save_while_the_storage_hangs(rank: int, folder: str) -> tuple[list[tuple[dict[str, Any], str]], list[str], int]:
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    setattr(_paced_saves, "STUCK_SECONDS", 0.3)  # noqa: B010
    me = Rank(folder)
    shown = list[str]()
    setattr(_paced_saves, "show_stuck_save", shown.append)  # noqa: B010
    with hanging_write() if rank == 1 else nullcontext():
        train(me, "continuous", until=lambda: rank == 0 or len(shown) >= 1)
        train(me, "continuous", until=lambda: me.reports.qsize() >= 2)
        dcp.save(make_state(weight=1.0, step=1))
    return me.finish_uploads(), shown, rank


def test_a_save_that_does_not_end_is_given_up_by_all_ranks_and_the_next_one_is_committed(tmp_path: Path) -> None:
    (zero, shown_by_0, _), (one, shown_by_1, _) = run_ranks(2, save_while_the_storage_hangs, tmp_path, str(tmp_path))
    assert zero == one and len(zero) >= 2
    for _, folder in zero:
        assert ".metadata" in read_metadata(folder)
    first, *others = shown_by_1
    assert "rank 1 " in first and "__1_0.distcp" in first and str(tmp_path) in first and "training continues" in first
    assert others and not any(others), "it is over with the next commit"
    assert not any(shown_by_0), "the other rank only waits"


def learn_late(seconds: float) -> None:
    """Makes this rank learn of the end of each save later than the others."""
    save = state_dict_saver.async_save

    def save_and_learn_late(*arguments: Any, **options: Any) -> Future[Any]:
        late: Future[Any] = Future()

        def end(written: Any) -> None:
            time.sleep(seconds)
            late.set_exception(written.exception())

        save(*arguments, **options).add_done_callback(end)  # type: ignore[union-attr]
        return late

    setattr(state_dict_saver, "async_save", save_and_learn_late)  # noqa: B010


def save_to_a_full_disk(rank: int, folder: str) -> list[str]:
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if rank == 1:
        setattr(_storage_files.WriteProgress, "add", fail)  # noqa: B010
        learn_late(0.3)
    errors = [read_error(lambda: train(me, "continuous", until=lambda: False))]
    assert me.reports.empty()
    return errors


def test_an_error_of_the_storage_ends_the_run_and_nothing_is_committed(tmp_path: Path) -> None:
    for [error] in run_ranks(2, save_to_a_full_disk, tmp_path, str(tmp_path)):
        assert "No space left on device" in error and "checkpoint_" in error


def time_a_save(rank: int, folder: str) -> list[float]:
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder)

    def make_slowly() -> dict[str, Any]:
        time.sleep(0.2)
        return {"step": 1}

    while me.reports.empty():
        dcp.save(make_slowly, every="continuous")
    in_background, _ = steps.read_times()
    dcp.save({})  # commits what is being written
    before, _ = steps.read_times()
    dcp.save(make_slowly)
    after, _ = steps.read_times()
    me.finish_uploads()
    return [in_background, after - before]


def test_the_time_for_which_training_waits_for_the_copy_is_counted(tmp_path: Path) -> None:
    """`railhead why` advises by it; the report itself is counted by its own watch, which these ranks do not have."""
    [(in_background, at_once)] = run_ranks(1, time_a_save, tmp_path, str(tmp_path))
    assert in_background >= 0.2 and at_once >= 0.2


def save_at_a_notice(rank: int, folder: str) -> list[int]:
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder)
    train(me, 1000.0, until=lambda: True)
    me.notify(deadline=DEADLINE, ranks=[0, 1])
    begun = train(me, 1000.0, until=lambda: me.reports.qsize() >= 1)
    return [*begun, *(metrics["step"] for metrics, _ in me.finish_uploads())]


def test_a_notice_saves_long_before_the_next_save_is_due(tmp_path: Path) -> None:
    zero, one = run_ranks(2, save_at_a_notice, tmp_path, str(tmp_path))
    assert zero == one and len(zero) == 2 and zero[0] == zero[1]


def replace_a_running_save_at_a_notice(rank: int, folder: str) -> list[str]:
    """What runs when the notice comes is of an earlier step: its commit would end the run."""
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder)
    with hanging_write() as is_writing:
        begun = train(me, "continuous", until=is_writing.is_set)
        me.notify(deadline=DEADLINE, ranks=[0, 1])
        again = train(me, "continuous", until=lambda: me.reports.qsize() >= 1)
    dcp.save(make_state(weight=1.0, step=1))
    committed = [folder for _, folder in me.finish_uploads()]
    assert len(begun) == 1 and len(committed) == len(again) + 1, "all but the first, and the last one"
    return committed


def test_a_notice_replaces_a_save_that_is_being_written(tmp_path: Path) -> None:
    zero, one = run_ranks(2, replace_a_running_save_at_a_notice, tmp_path, str(tmp_path))
    assert zero == one


def test_auto_learns_of_the_runs_losses_as_the_controller_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_losses", NO_LOSSES)
    monkeypatch.setattr(_save_pace, "LEAST_SECONDS", 0.0)
    saves = _paced_saves.PacedSaves("auto")
    saves._pace.begin(time.monotonic())
    saves._pace.add_stall(0.2)
    intervals = list[float]()
    for losses in (NO_LOSSES, LossHistory(11, 0.0)):
        steps.exchange_beat(losses)
        saves._vote()
        intervals.append(saves._pace.interval)
    assert intervals == pytest.approx([185.9, 53.7], abs=0.05)


def save_without_torch_distributed(rank: int, folder: str) -> list[str]:
    Rank(folder)
    with mock.patch.object(dist, "is_initialized", return_value=False):
        return [read_error(lambda: dcp.save({"step": 1})), read_error(lambda: dcp.save({"step": 1}, every="auto"))]


def test_ranks_that_cannot_reach_each_other_are_told_so(tmp_path: Path) -> None:
    for errors in run_ranks(2, save_without_torch_distributed, tmp_path, str(tmp_path)):
        assert all("torch.distributed, which these 2 ranks have not initialized" in error for error in errors)


def count_calls_of_a_step(rank: int, folder: str) -> int:
    """Calls of Python functions in a step without a look."""
    Rank(folder)
    state = {"step": 1}
    for _ in range(2):
        dcp.save(state, every=1000.0)
    called = list[str]()
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    dcp.save(state, every=1000.0)
    sys.setprofile(None)
    return len(called)


def test_a_step_without_a_save_costs_four_calls(tmp_path: Path) -> None:
    """0.3 us, and an all_reduce every two seconds."""
    assert run_ranks(1, count_calls_of_a_step, tmp_path, str(tmp_path)) == [4]
