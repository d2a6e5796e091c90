"""Reads the stacks of this rank's threads, and finds the line of the user's code in them."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import PurePath

from railhead.contract import environment
from railhead.driver.mailbox.values import Stack
from railhead.driver.messages.frames import find_package
from railhead.driver.rank.run_rank import RETURNED, read_end
from railhead.driver.rank.steps import read_beat

LIMIT_CHARS = 12_000  # per rank
TRAINING_THREAD = "TrainingThread"  # Ray Train's name for it
_NOT_OF_INTEREST = {"ray", "threading", "queue"}  # skips threads with no other frames


def read_stacks() -> Stack:
    """Returns, on a worker, its pod, where train_func is, and the stacks of its threads, the training one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()}

    def is_other(ident: int) -> bool:
        return not names.get(ident, "").startswith(TRAINING_THREAD)

    texts = []
    place = ""
    for ident in sorted(frames, key=is_other):
        stack = traceback.extract_stack(frames[ident])
        name = names.get(ident, "unnamed thread")
        if not place and name.startswith(TRAINING_THREAD):
            place = describe_place(stack)
        elif {find_package(frame.filename) for frame in stack} <= _NOT_OF_INTEREST:
            continue
        texts.append(f"{name}\n" + "".join(traceback.format_list(stack)))
    text = "\n".join(texts)[:LIMIT_CHARS]
    return Stack(-1, os.environ.get(environment.POD_NAME, ""), _add_report(place), text)


def _add_report(place: str) -> str:
    """Says in which call of ray.train.report the rank waits for the others, or how many it made before it returned."""
    beat = read_beat()
    if read_end().stage == RETURNED:
        return f"no longer in train_func, which has returned after {beat.reports} calls of ray.train.report"
    if place and beat.open_reports:
        return f"{place}, in call {beat.reports} of ray.train.report"
    return place or "outside train_func"


def describe_place(stack: Sequence[traceback.FrameSummary]) -> str:
    """Returns the innermost line of the user's own code, and the package that it called."""
    inner = ""
    for frame in reversed(stack):
        package = find_package(frame.filename)
        if package is None:
            place = f"at {PurePath(frame.filename).name}:{frame.lineno} in {frame.name}"
            if inner:
                return f"{place}, inside {inner}"
            return place
        inner = package
    return ""
