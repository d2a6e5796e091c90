"""Collects the stacks of all ranks when the driver requests them, in Ray Train's controller.

Its workers respond while train_func hangs, since that runs in its own thread; not while
native code holds the GIL.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import traceback
from pathlib import Path, PurePath
from typing import Any, Optional

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.contract import environment as e
from railhead.driver.describe import describe_exception
from railhead.driver.errors import Stepless, Stuck
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller.callback import never_raises
from railhead.driver.train_controller.workers import Answer, call_ranks

ANSWER_TIMEOUT = 10.0  # seconds
LIMIT_CHARS = 12_000  # per rank
TRAINING_THREAD = "TrainingThread"  # Ray Train's name for it
_NO_STACKS = {"pod": "", "place": "", "stack": ""}
_NOT_OF_INTEREST = {"ray", "threading", "queue"}  # skips threads with no other frames
_PACKAGES = ("site-packages", "dist-packages")


class StacksCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Checks for the driver's requests at each poll of the workers; a hang becomes an error of the group."""

    def __init__(self) -> None:
        self._spool = Spool(Path(os.environ[e.TEMP]))
        self._group: Any = None

    def after_worker_group_start(self, worker_group: Any) -> None:
        self._group = worker_group
        self._spool.take_hang()  # of the previous group, which failed otherwise meanwhile

    @never_raises
    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        if self._group is not None and self._spool.take_request_for_stacks():
            self._spool.write_stacks(call_workers(self._group))
        hang = self._spool.take_hang()
        if hang and not worker_group_status.finished:
            error = Stepless if hang.is_of_steps else Stuck
            worker_group_status.worker_statuses[0].error = error(hang.rank, hang.message)


def call_workers(worker_group: Any) -> list[dict[str, Any]]:
    """For each rank {rank, pod, place, stack}; empty strings when it does not respond."""
    ranks = range(len(worker_group.get_workers()))
    answers = call_ranks(worker_group, ranks, read_stacks, timeout=ANSWER_TIMEOUT)
    return [{**_NO_STACKS, **_read_answer(answer), "rank": rank} for rank, answer in answers.items()]


def _read_answer(answer: Answer) -> dict[str, str]:
    return {"stack": describe_exception(answer.error)} if answer.error else answer.value or {}


def read_stacks() -> dict[str, str]:
    """On a worker: its pod, where train_func is, and the stacks of its threads, the training one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()}
    ranked = sorted(frames, key=lambda ident: not names.get(ident, "").startswith(TRAINING_THREAD))
    texts, place = [], ""
    for ident in ranked:
        stack = traceback.extract_stack(frames[ident])
        name = names.get(ident, "unnamed thread")
        if not place and name.startswith(TRAINING_THREAD):
            place = find_place(stack)
        elif {find_package(frame.filename) for frame in stack} <= _NOT_OF_INTEREST:
            continue
        texts.append(f"{name}\n" + "".join(traceback.format_list(stack)))
    text = "\n".join(texts)[:LIMIT_CHARS]
    return {"pod": os.environ.get(e.POD_NAME, ""), "place": place or "outside train_func", "stack": text}


def find_place(stack: list[traceback.FrameSummary]) -> str:
    """The innermost line of the user's own code, and the package that it called."""
    inner = ""
    for frame in reversed(stack):
        package = find_package(frame.filename)
        if package is None:
            place = f"at {PurePath(frame.filename).name}:{frame.lineno} in {frame.name}"
            return f"{place}, inside {inner}" if inner else place
        inner = package
    return ""


def find_package(file: str) -> Optional[str]:
    """Whose code it is; None = the user's."""
    parts = PurePath(file).parts
    for folder in _PACKAGES:
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1].removesuffix(".py")
    if ".pyz" in file:
        return "railhead"
    if file.startswith("<") or file.startswith(sysconfig.get_paths()["stdlib"]):
        return PurePath(file).stem
    return None
