"""The end of a rank's function is recorded whatever it does to exceptions, streams and logging."""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ray.train.v2._internal.execution.worker_group import thread_runner

from railhead.driver.describe import TEXT_LIMIT, describe_exception, make_printable
from railhead.driver.errors import Kind, TrainingError
from railhead.driver.logs import find_mark
from railhead.driver.rank import run as rank


class Silent(BaseException):
    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


class Stuck(Exception):
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt("no pickle")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Odd(Exception, metaclass=Nameless):
    __module__ = None  # type: ignore[assignment]


def fail(error: BaseException) -> None:
    raise error


def close_streams(error: BaseException) -> None:
    sys.stdout.close()
    sys.stderr.close()
    raise error


def take_streams(error: BaseException) -> None:
    sys.stdout = sys.stderr = None
    raise error


def fall(depth: int) -> None:
    fall(depth + 1)


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "find_self", lambda: (1, "ab-1"))
    monkeypatch.setattr(logging.Handler, "handleError", logging.Handler.handleError)


@contextmanager
def own_streams() -> Iterator[None]:
    """For the user's code to close."""
    before = sys.stdout, sys.stderr
    own = [os.fdopen(os.dup(number), "w") for number in (1, 2)]
    sys.stdout, sys.stderr = own
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in own:
            stream.close()


CASES: list[tuple[str, Callable[[], Any], str]] = [
    ("surrogate", lambda: fail(ValueError("\udcff bad")), r"ValueError: \udcff bad (test_run.py, line"),
    ("closed", lambda: close_streams(ValueError("no")), "ValueError: no (test_run.py, line"),
    ("taken", lambda: take_streams(ValueError("no")), "ValueError: no (test_run.py, line"),
    (
        "no text",
        lambda: fail(Silent()),
        "tests.unit.driver.rank.test_run.Silent: <exception str() failed> (test_run.py",
    ),
    ("no pickle", lambda: fail(Stuck("here")), "tests.unit.driver.rank.test_run.Stuck: here (test_run.py"),
    ("no name", lambda: fail(Odd("here")), "Odd: here"),
    ("interrupt", lambda: fail(KeyboardInterrupt()), "KeyboardInterrupt (test_run.py"),
    ("generator", lambda: fail(GeneratorExit()), "GeneratorExit (test_run.py"),
    ("exit", lambda: sys.exit(0), "SystemExit: 0 (test_run.py"),
    ("recursion", lambda: fall(0), "RecursionError: maximum recursion depth exceeded"),
]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("name", "act", "expected"), CASES, ids=[name for name, _, _ in CASES])
def test_records_every_error_in_a_form_that_can_be_pickled(
    name: str, act: Callable[[], Any], expected: str, keeps: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with own_streams(), pytest.raises(BaseException) as caught:
        rank.run_rank(lambda _: act(), resume_from="", keeps_exception=keeps)
    end = pickle.loads(pickle.dumps(rank.read_end()))
    assert (end.stage, end.error.kind, end.error.rank) == (rank.RAISED, Kind.RAISED, 1)
    assert expected in end.error.text
    end.error.text.encode()
    assert isinstance(caught.value, TrainingError) or keeps
    assert caught.value.__context__ is None or keeps, "Ray would log it"
    assert "Traceback (most recent call last)" in capfd.readouterr().err or name == "no name"


@pytest.mark.parametrize(
    ("code", "expected"), [(3, 3), (256 + 7, 7), (-1, 255), ("no data", 1), (0, None), (None, None)]
)
def test_records_the_exit_code_of_a_rank(code: Any, expected: int | None) -> None:
    with own_streams(), pytest.raises(TrainingError):
        rank.run_rank(lambda _: sys.exit(code), resume_from="", keeps_exception=False)
    assert pickle.loads(pickle.dumps(rank.read_end())).error.exit_code == expected


def run_as_ray_does(target: Callable[[], Any]) -> thread_runner.ThreadRunner:
    runner = thread_runner.ThreadRunner()
    with own_streams():
        runner.run(target)
        runner._thread.join(30)
    runner.get_exception_queue().put(None)  # for Ray's thread that waits for an error
    return runner


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_contract_records_an_error_that_rays_thread_loses() -> None:
    def lose(*_: Any) -> None:
        raise SystemExit

    def act() -> Any:
        return rank.run_rank(lambda _: fail(ValueError("\udcff bad")), resume_from="", keeps_exception=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread_runner, "construct_user_exception_with_traceback", lose)
        runner = run_as_ray_does(act)
    assert (runner.is_running(), runner.get_error()) == (False, None), "Ray considers it a success"
    end = rank.read_end()
    assert end.stage == rank.RAISED and end.error is not None
    assert end.error.text.startswith(r"ValueError: \udcff bad")


@pytest.mark.parametrize("error", ["\udcff bad", "plain"])
def test_contract_rays_thread_keeps_the_error_of_a_rank(error: str) -> None:
    """Even with closed streams: Ray logs it before it keeps it."""
    act = lambda _: close_streams(ValueError(error))  # noqa: E731
    runner = run_as_ray_does(lambda: rank.run_rank(act, resume_from="", keeps_exception=False))
    kept = runner.get_error()
    assert kept is not None and kept._base_exc.kind is Kind.RAISED


def test_records_a_return(capfd: pytest.CaptureFixture[str]) -> None:
    with own_streams():
        assert rank.run_rank(lambda number: number, resume_from="", keeps_exception=False) == 1
    assert rank.read_end().stage == rank.RETURNED
    found = [find_mark(line) for line in capfd.readouterr().out.splitlines()]
    assert [mark and mark.kind for mark in found] == ["begin", "end"]


def test_records_an_error_before_the_function_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "find_self", lambda: fail(RuntimeError("no context")))
    with pytest.raises(TrainingError, match=r"^RuntimeError: no context"):
        rank.run_rank(lambda _: None, resume_from="", keeps_exception=False)
    assert rank.read_end().stage == rank.RAISED


def test_rejects_a_function_whose_body_never_ran() -> None:
    async def train() -> None: ...

    with pytest.raises(TrainingError, match="returned a coroutine, and its body never ran") as caught:
        rank.run_rank(lambda _: train(), resume_from="", keeps_exception=True)
    assert caught.value.kind is Kind.UNUSABLE
    assert rank.read_end().stage == rank.RAISED


def test_never_writes_the_log_into_a_users_file(tmp_path: Any) -> None:
    log = rank._OwnLog()
    with open(tmp_path / "weights", "wb") as file:
        os.dup2(file.fileno(), log._descriptor)
        log.write("a traceback")
    log.close()
    os.close(log._descriptor)
    assert (tmp_path / "weights").read_bytes() == b""


def test_a_handler_whose_stream_is_closed_does_not_raise() -> None:
    rank.keep_logging_from_raising()
    once = logging.Handler.handleError
    rank.keep_logging_from_raising()
    assert logging.Handler.handleError is once
    logger = logging.Logger("of this test")
    with own_streams():
        logger.addHandler(logging.StreamHandler(sys.stdout))
        sys.stdout.close()
        sys.stderr.close()
        logger.error("nobody reads it")


def test_truncates_long_texts_and_keeps_other_scripts() -> None:
    assert len(describe_exception(ValueError("x" * 10_000_000))) < TEXT_LIMIT + 10
    assert describe_exception(ValueError("损失 is NaN")) == "ValueError: 损失 is NaN"
    assert make_printable("a\ud800\udc00b") == r"a\ud800\udc00b"


def test_without_the_controllers_permission_the_function_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "_is_permitted", False)
    ran: list[int] = []
    with pytest.raises(TrainingError, match="does not run Railhead's callbacks"):
        rank.run_rank(ran.append, resume_from="", keeps_exception=False)
    assert ran == []
    monkeypatch.setattr("ray.get_gpu_ids", list)
    rank.permit_training()
    rank.run_rank(ran.append, resume_from="", keeps_exception=False)
    assert ran == [1]
