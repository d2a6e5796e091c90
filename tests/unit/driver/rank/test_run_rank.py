"""The end of a rank's function is recorded whatever it does to exceptions, streams and logging; and the functions that
Ray receives import or wrap the user's, and turn problems into our own errors."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ray.train.v2._internal.execution.worker_group import thread_runner

from railhead import training
from railhead.contract import environment
from railhead.contract.trackers import RUN_ID
from railhead.driver.container.user_code import WORKING_FOLDER
from railhead.driver.messages.attempt_errors import TrainingError
from railhead.driver.messages.exception_text import TEXT_LIMIT, describe_exception
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.messages.rank_marks import find_mark
from railhead.driver.messages.redaction import make_printable
from railhead.driver.rank import rank_log, run_rank
from railhead.driver.ray import train_context


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
    monkeypatch.setattr(run_rank, "read_self", lambda: (1, "ab-1"))
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
    ("surrogate", lambda: fail(ValueError("\udcff bad")), r"ValueError: \udcff bad (test_run_rank.py, line"),
    ("closed", lambda: close_streams(ValueError("no")), "ValueError: no (test_run_rank.py, line"),
    ("taken", lambda: take_streams(ValueError("no")), "ValueError: no (test_run_rank.py, line"),
    (
        "no text",
        lambda: fail(Silent()),
        "tests.unit.driver.rank.test_run_rank.Silent: <exception str() failed> (test_run_rank.py",
    ),
    ("no pickle", lambda: fail(Stuck("here")), "tests.unit.driver.rank.test_run_rank.Stuck: here (test_run_rank.py"),
    ("no name", lambda: fail(Odd("here")), "Odd: here"),
    ("interrupt", lambda: fail(KeyboardInterrupt()), "KeyboardInterrupt (test_run_rank.py"),
    ("generator", lambda: fail(GeneratorExit()), "GeneratorExit (test_run_rank.py"),
    ("exit", lambda: sys.exit(0), "SystemExit: 0 (test_run_rank.py"),
    ("recursion", lambda: fall(0), "RecursionError: maximum recursion depth exceeded"),
]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("name", "act", "expected"), CASES, ids=[name for name, _, _ in CASES])
def test_records_every_error_in_a_form_that_can_be_pickled(
    name: str, act: Callable[[], Any], expected: str, keeps: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with own_streams(), pytest.raises(BaseException) as caught:
        run_rank.run_rank(lambda _: act(), resume_from="", keeps_exception=keeps)
    end = pickle.loads(pickle.dumps(run_rank.read_end()))
    assert (end.stage, end.error.kind, end.error.rank) == (run_rank.RAISED, RankErrorKind.RAISED, 1)
    assert expected in end.error.text
    end.error.text.encode()
    assert isinstance(caught.value, TrainingError) or keeps
    assert caught.value.__context__ is None or keeps, "Ray would log it"
    assert "Traceback (most recent call last)" in capfd.readouterr().err or name == "no name"


def test_a_function_that_catches_a_refused_report_has_not_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other ranks wait for a report that will never come."""
    reports = train_context.Reports(
        failed=TrainingError(RankErrorKind.RAISED, 1, "OSError: gone (m.py, line 3, in train)")
    )
    monkeypatch.setattr(train_context, "REPORTS", reports)
    run_rank.run_rank(lambda _: None, resume_from="", keeps_exception=False)

    def report_again(_: int) -> None:
        with contextlib.suppress(Exception):
            train_context._refuse_after_failure()

    for keeps in (False, True):
        with pytest.raises(TrainingError, match=r"an earlier report of this rank failed.* OSError: gone"):
            run_rank.run_rank(report_again, resume_from="", keeps_exception=keeps)


@pytest.mark.parametrize(
    ("code", "expected"), [(3, 3), (256 + 7, 7), (-1, 255), ("no data", 1), (0, None), (None, None)]
)
def test_records_the_exit_code_of_a_rank(code: Any, expected: int | None) -> None:
    with own_streams(), pytest.raises(TrainingError):
        run_rank.run_rank(lambda _: sys.exit(code), resume_from="", keeps_exception=False)
    assert pickle.loads(pickle.dumps(run_rank.read_end())).error.exit_code == expected


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
        return run_rank.run_rank(lambda _: fail(ValueError("\udcff bad")), resume_from="", keeps_exception=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread_runner, "construct_user_exception_with_traceback", lose)
        runner = run_as_ray_does(act)
    assert (runner.is_running(), runner.get_error()) == (False, None), "Ray considers it a success"
    end = run_rank.read_end()
    assert end.stage == run_rank.RAISED and end.error is not None
    assert end.error.text.startswith(r"ValueError: \udcff bad")


@pytest.mark.parametrize("error", ["\udcff bad", "plain"])
def test_contract_rays_thread_keeps_the_error_of_a_rank(error: str) -> None:
    """Even with closed streams: Ray logs it before it keeps it."""
    act = lambda _: close_streams(ValueError(error))  # noqa: E731
    runner = run_as_ray_does(lambda: run_rank.run_rank(act, resume_from="", keeps_exception=False))
    kept = runner.get_error()
    assert kept is not None and kept._base_exc.kind is RankErrorKind.RAISED


def test_records_a_return(capfd: pytest.CaptureFixture[str]) -> None:
    with own_streams():
        assert run_rank.run_rank(lambda number: number, resume_from="", keeps_exception=False) == 1
    assert run_rank.read_end().stage == run_rank.RETURNED
    found = [find_mark(line) for line in capfd.readouterr().out.splitlines()]
    assert [mark and mark.kind for mark in found] == ["begin", "end"]


def test_records_an_error_before_the_function_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rank, "read_self", lambda: fail(RuntimeError("no context")))
    with pytest.raises(TrainingError, match=r"^RuntimeError: no context"):
        run_rank.run_rank(lambda _: None, resume_from="", keeps_exception=False)
    assert run_rank.read_end().stage == run_rank.RAISED


def test_rejects_a_function_whose_body_never_ran() -> None:
    async def train() -> None: ...

    with pytest.raises(TrainingError, match="returned a coroutine, and its body never ran") as caught:
        run_rank.run_rank(lambda _: train(), resume_from="", keeps_exception=True)
    assert caught.value.kind is RankErrorKind.UNUSABLE
    assert run_rank.read_end().stage == run_rank.RAISED


def test_never_writes_the_log_into_a_users_file(tmp_path: Any) -> None:
    log = rank_log.OwnLog()
    with open(tmp_path / "weights", "wb") as file:
        os.dup2(file.fileno(), log._descriptor)
        log.write("a traceback")
    log.close()
    os.close(log._descriptor)
    assert (tmp_path / "weights").read_bytes() == b""


def test_a_handler_whose_stream_is_closed_does_not_raise() -> None:
    rank_log.keep_logging_from_raising()
    once = logging.Handler.handleError
    rank_log.keep_logging_from_raising()
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
    monkeypatch.setattr(run_rank, "_is_permitted", False)
    ran: list[int] = []
    with pytest.raises(TrainingError, match="does not run Railhead's callbacks"):
        run_rank.run_rank(ran.append, resume_from="", keeps_exception=False)
    assert ran == []
    monkeypatch.setattr("ray.get_gpu_ids", list)
    for variable in (RUN_ID, "WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME"):
        monkeypatch.setenv(variable, "")  # so that what this sets goes with the test
        monkeypatch.delenv(variable)
    run_rank.permit_training("digits-1c6f0c8e")
    run_rank.run_rank(ran.append, resume_from="", keeps_exception=False)
    assert ran == [1]
    assert (training.run_id(), os.environ["WANDB_RUN_ID"]) == ("digits-1c6f0c8e", "digits-1c6f0c8e-rank1")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(environment.SOURCE, str(tmp_path))
    monkeypatch.delenv(WORKING_FOLDER, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(run_rank, "read_self", lambda: (3, "ab-1"))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def train(source: Path, code: str, *, name: str = "mine_1", function: str = "f", config: object = None) -> object:
    (source / f"{name}.py").write_text(code)
    return run_rank.run_train_func(f"{name}:{function}", config, "")


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("def f(config): return config['lr']", 0.5),
        ("def f(): return 1", 1),
        ("def f(config=None): return config is None", True),
        ("def f(): return object()", None),
        ("import sys\ndef f(): sys.exit()", None),
    ],
)
def test_passes_the_config_to_a_function_that_takes_one(source: Path, code: str, result: object) -> None:
    assert train(source, code, config={"lr": 0.5}) == result


@pytest.mark.parametrize(
    ("code", "function", "expected"),
    [
        ("import absent_library", "f", "ModuleNotFoundError: No module named 'absent_library' (mine_1.py, line 1"),
        ("def g(): pass", "f", "AttributeError: module 'mine_1' has no attribute 'f'"),
        ("def f(:", "f", "SyntaxError"),
        ("f = 3", "f", "is not a function"),
        ("def f(a, b): pass", "f", "2 required parameters"),
        ("async def f(): pass", "f", "the function is asynchronous (async def), so calling it does not run its body"),
        ("def f():\n    yield", "f", "the function is a generator (it has a yield)"),
        ("async def f():\n    yield", "f", "the function is an asynchronous generator"),
        ("async def g(): pass\ndef f(): return g()", "f", "returned a coroutine, and its body never ran"),
        ("def g(): yield\ndef f(): return g()", "f", "returned a generator, and its body never ran"),
    ],
)
def test_rejects_an_unusable_entrypoint(source: Path, code: str, function: str, expected: str) -> None:
    with pytest.raises(TrainingError) as caught:
        train(source, code, function=function)
    assert expected in caught.value.text
    assert (caught.value.kind, caught.value.rank) == (RankErrorKind.UNUSABLE, 3)


def test_reports_an_exception_with_its_place(source: Path) -> None:
    code = "class Mine(Exception): pass\ndef f():\n    raise Mine('too\\nbad')\n"
    with pytest.raises(TrainingError) as caught:
        train(source, code)
    assert caught.value.text == "mine_1.Mine: too\nbad (mine_1.py, line 3, in f)"
    assert caught.value.kind is RankErrorKind.RAISED


def test_the_users_folder_comes_last(source: Path) -> None:
    (source / "queue.py").write_text("raise RuntimeError('not the standard library')")
    assert train(source, "import queue\ndef f(): return queue.__file__") == queue.__file__
    assert sys.path[-1] == str(source)


def test_reports_a_module_hidden_by_the_standard_library(source: Path) -> None:
    with pytest.raises(TrainingError, match="another name"):
        train(source, "def f(): pass", name="colorsys")


def test_marks_the_output(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(source, "import sys\ndef f(): sys.stdout.write('half a line')")
    lines = capsys.readouterr().out.splitlines()
    marks = [find_mark(line) for line in lines]
    assert [mark and (mark.kind, mark.rank, mark.rest) for mark in marks] == [
        ("begin", 3, ""),
        ("end", 3, "half a line"),
    ]


@pytest.mark.parametrize("code", [0, None])
def test_a_function_that_exits_without_an_error_has_succeeded(source: Path, code: int | None) -> None:
    """As with trainFunc, and as any program in Python."""

    def run(config: Any) -> None:
        sys.exit(code)

    assert run_rank.mark_loop(run)({}) is None and run_rank.mark_loop(lambda: sys.exit(code))() is None
    assert run_rank.read_end().stage == run_rank.RETURNED


def test_an_exit_of_the_actor_or_with_a_code_is_none(source: Path) -> None:
    def exit_actor() -> None:
        error = SystemExit(0)
        error.is_ray_terminate = True  # type: ignore[attr-defined]
        raise error

    for function in (exit_actor, lambda: sys.exit(3)):
        with pytest.raises(SystemExit):
            run_rank.mark_loop(function)()
        assert run_rank.read_end().stage == run_rank.RAISED
