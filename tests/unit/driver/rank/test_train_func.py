"""The functions that Ray receives: they import or wrap the user's function, and turn problems into our own errors."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment
from railhead.driver.errors import Kind, TrainingError
from railhead.driver.logs import find_mark
from railhead.driver.rank import run as rank
from railhead.driver.rank import train_func
from railhead.driver.rank.train_func import mark_loop
from railhead.driver.user_code import WORKING_FOLDER


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(environment.SOURCE, str(tmp_path))
    monkeypatch.delenv(WORKING_FOLDER, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(rank, "find_self", lambda: (3, "ab-1"))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def run(source: Path, code: str, *, name: str = "mine_1", function: str = "f", config: object = None) -> object:
    (source / f"{name}.py").write_text(code)
    return train_func.run_train_func(f"{name}:{function}", config, "")


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
    assert run(source, code, config={"lr": 0.5}) == result


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
        run(source, code, function=function)
    assert expected in caught.value.text
    assert (caught.value.kind, caught.value.rank) == (Kind.UNUSABLE, 3)


def test_reports_an_exception_with_its_place(source: Path) -> None:
    code = "class Mine(Exception): pass\ndef f():\n    raise Mine('too\\nbad')\n"
    with pytest.raises(TrainingError) as caught:
        run(source, code)
    assert caught.value.text == "mine_1.Mine: too\nbad (mine_1.py, line 3, in f)"
    assert caught.value.kind is Kind.RAISED


def test_the_users_folder_comes_last(source: Path) -> None:
    (source / "queue.py").write_text("raise RuntimeError('not the standard library')")
    assert run(source, "import queue\ndef f(): return queue.__file__") == queue.__file__
    assert sys.path[-1] == str(source)


def test_reports_a_module_hidden_by_the_standard_library(source: Path) -> None:
    with pytest.raises(TrainingError, match="another name"):
        run(source, "def f(): pass", name="colorsys")


def test_marks_the_output(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(source, "import sys\ndef f(): sys.stdout.write('half a line')")
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

    assert mark_loop(run)({}) is None and mark_loop(lambda: sys.exit(code))() is None
    assert rank.read_end().stage == rank.RETURNED


def test_an_exit_of_the_actor_or_with_a_code_is_none(source: Path) -> None:
    def exit_actor() -> None:
        error = SystemExit(0)
        error.is_ray_terminate = True  # type: ignore[attr-defined]
        raise error

    for function in (exit_actor, lambda: sys.exit(3)):
        with pytest.raises(SystemExit):
            mark_loop(function)()
        assert rank.read_end().stage == rank.RAISED
