"""What the stub raises on a worker when the user's code fails.

Values of our own, because an exception class of the user's module cannot be unpickled in
Ray's controller, which does not have that module. Importable wherever the bundle is.
"""

from __future__ import annotations

import time
import traceback
from pathlib import PurePath
from typing import Any


class TrainingError(Exception):
    """Something failed on one rank.

    Attributes:
        rank: of the worker.
        text: `Type: message (file, line n, in function)`.
        time: seconds since the epoch, on the worker's clock; tells cause from consequence.
    """

    def __init__(self, rank: int, text: str, when: float) -> None:
        super().__init__(f"rank {rank}: {text}")
        self.rank = rank
        self.text = text
        self.time = when

    def __reduce__(self) -> Any:
        return (type(self), (self.rank, self.text, self.time))


class TrainFunctionRaised(TrainingError):
    """train_func raised."""


class EntrypointNotUsable(TrainingError):
    """trainer.trainFunc cannot be imported or called; another try would end the same way."""


def describe_exception(error: BaseException) -> str:
    """`Type: message (file, line n, in function)`, where the place is the innermost frame."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, SyntaxError):
        return " ".join(text.split())
    last = frames[-1]
    return f"{text} ({PurePath(last.filename).name}, line {last.lineno}, in {last.name})"


def build_training_error(kind: type, rank: int, error: BaseException) -> TrainingError:
    built: TrainingError = kind(rank, describe_exception(error), time.time())
    return built
