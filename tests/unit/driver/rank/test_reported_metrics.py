"""Metrics of every kind, as Ray Train's own snapshot model writes them after the conversion on the rank."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import _TrainingResultState

from railhead.driver.rank.reported_metrics import convert


class Colour(enum.Enum):
    """One of Python's kinds that pydantic writes."""

    RED = 1


class Level(enum.IntEnum):
    """A subclass of a number."""

    LOW = 1


@dataclasses.dataclass
class Score:
    """A class of the user's that pydantic writes."""

    value: float


Pair = collections.namedtuple("Pair", "a b")


def write(metrics: Any) -> Any:
    return _TrainingResultState.model_validate_json(
        _TrainingResultState(checkpoint_dir_name="c", metrics=metrics).model_dump_json()
    ).metrics


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.bool_(True), True),
        (np.array(0.5), 0.5),
        (np.array([0.5], dtype=np.float32), 0.5),
        (np.arange(3), [0, 1, 2]),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.array([]), []),
        (np.str_("a"), "a"),
        (np.array(["a", "b"]), ["a", "b"]),
        ({"a": {"b": [np.float32(0.5), (np.int64(1),)]}}, {"a": {"b": [0.5, (1,)]}}),
        ({np.int64(1): np.int64(2)}, {1: 2}),
        ({np.int64(1)}, (1,)),
        (Pair(np.int64(1), 2), (1, 2)),
    ],
)
def test_numbers_of_numpy_are_pythons(value: Any, expected: Any) -> None:
    found = convert({"m": value}, True)["m"]
    assert found == expected and type(found) is type(expected)
    write({"m": found})


def test_numbers_of_torch_are_pythons() -> None:
    torch = pytest.importorskip("torch")
    metrics = {
        "zero": torch.tensor(0.5, requires_grad=True),
        "half": torch.tensor(0.5, dtype=torch.bfloat16),
        "one": torch.tensor([2]),
        "list": torch.arange(3),
        "truth": torch.tensor(True),
    }
    expected = {"zero": 0.5, "half": 0.5, "one": 2, "list": [0, 1, 2], "truth": True}
    assert convert(metrics, True) == expected == write(convert(metrics, True))
    numbers = convert({**metrics, "list": 1}, False)
    assert numbers == {**expected, "list": 1}, "also without a checkpoint, where Ray refuses tensors"


class Eager:
    """An eager tensor of tensorflow, which this environment lacks: it has numpy's array, and nothing else."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def numpy(self) -> Any:
        return self._value


def test_numbers_of_tensorflow_are_pythons() -> None:
    assert convert({"a": Eager(np.float32(0.5)), "b": Eager(np.arange(2))}, True) == {"a": 0.5, "b": [0, 1]}


@pytest.mark.parametrize(
    "value",
    [
        *(
            1,
            1.5,
            True,
            None,
            "text",
            "é",
            float("nan"),
            float("inf"),
            10**400,
            Level.LOW,
            Colour.RED,
            b"bytes",
            1 + 2j,
        ),
        *(decimal.Decimal("0.1"), datetime.datetime(2026, 1, 2), datetime.date(2026, 1, 2), datetime.timedelta(1)),
        *(pathlib.Path("/a"), uuid.UUID(int=1), collections.deque([1]), Score(0.5)),
    ],
)
def test_what_pydantic_writes_stays_as_it_is(value: Any) -> None:
    found = convert({"m": value, (1, 2): 3, 4: 5}, True)
    assert found["m"] is value and found[1, 2] == 3
    write(found)


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cycle() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (object, "a builtins.object is neither a number nor a text"),
        (lambda: test_what_pydantic_writes_stays_as_it_is, "a builtins.function is neither"),
        (lambda: {"a": [Score(object())]}, r"a .*\.Score is neither"),  # type: ignore[arg-type]
        (lambda: b"\xff", "a builtins.bytes is neither"),
        (lambda: "\ud800", "its text is not valid Unicode"),
        (lambda: nest(300), "it has more than 200 levels"),
        (cycle, "it has more than 200 levels"),
        (lambda: range(3), "a builtins.range is neither"),
    ],
)
def test_the_rest_is_refused_with_the_metrics_name(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(
        TypeError, match=rf"ray\.train\.report: metric 'net' cannot be written .*: {reason}.*; report n"
    ):
        convert({"loss": 0.5, "net": make()}, True)
    assert convert({"net": make()}, False).keys() == {"net"}


def test_imports_neither_numpy_nor_torch_nor_pydantic_for_plain_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy", "torch", "pydantic", "ray.train.v2._internal.execution.checkpoint.checkpoint_manager"):
        monkeypatch.setitem(sys.modules, name, None)
    assert convert({"a": {"b": [1, 0.5, "x", None, True]}}, True) == {"a": {"b": [1, 0.5, "x", None, True]}}


def test_metrics_that_are_no_dict_are_rays_to_refuse() -> None:
    assert convert(None, True) is None  # type: ignore[arg-type]
