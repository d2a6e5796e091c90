"""Which source of a training function is sent, and why some functions are refused."""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.function_source import CELL, FunctionSource, complete_cell, find_source
from tests.unit.client.notebooks import Notebook, read_cells

Import = Callable[..., ModuleType]


@pytest.fixture
def import_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    """Imports a text as the module my_train of a file."""

    def load(text: str, name: str = "my_train", file: str = "my_train.py") -> ModuleType:
        (tmp_path / file).write_text(text)
        spec = importlib.util.spec_from_file_location(name, tmp_path / file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    found = Notebook()
    yield found
    found.forget()


def run_source(source: FunctionSource) -> dict[str, Any]:
    """Returns the names of the source, run as a module in a pod."""
    names: dict[str, Any] = {"__name__": source.module}
    exec(source.code, names)
    return names


def test_the_file_of_a_module_is_sent(import_file: Import) -> None:
    text = "import math\n\ndef train_func(config):\n    return math.pi\n"
    found = find_source(import_file(text).train_func)
    assert found == FunctionSource("my_train", "train_func", text)


def test_the_script_that_runs_is_sent_under_the_name_of_its_file(import_file: Import) -> None:
    module = import_file("def main(): ...\n", name="__main__", file="digits.py")
    assert find_source(module.main).module == "digits"


def test_a_decorated_function_is_found_in_its_own_file(import_file: Import) -> None:
    text = (
        "import functools\n"
        "from tests.unit.client.submit.test_function_source import decorate\n"
        "@decorate\ndef main(): ...\n"
    )
    assert find_source(import_file(text).main).code == text


def decorate(function: Callable[..., object]) -> Callable[..., object]:
    return functools.wraps(function)(lambda: None)


def test_a_cell_is_sent_with_the_imports_of_other_cells(notebook: Notebook) -> None:
    notebook.run("import math\nimport os.path as where\nfrom pathlib import Path\nfrom functools import partial as p\n")
    notebook.run("class Other: ...")
    notebook.run(
        "'''doc'''\nfrom __future__ import annotations\nRATE = 2\nclass Net:\n    path = Path('x')\n"
        "def train_func(config):\n"
        "    return math.sqrt(p(int, 4)()), Net.path, RATE, where.join(__name__, 'b'), len('ab')"
    )
    found = find_source(notebook.names["train_func"])
    assert (found.module, found.function) == (CELL, "train_func")
    assert run_source(found)["train_func"]({}) == (2.0, Path("x"), 2, f"{CELL}/b", 2)
    assert "Other" not in found.code


def test_the_documented_notebook_defines_its_function_where_ray_is_not_installed(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("ray", "ray.train"):
        monkeypatch.setitem(sys.modules, module, None)
    [cell] = [each for each in read_cells() if "def train_func" in each]
    notebook.run(cell)
    assert "import ray.train" in find_source(notebook.names["train_func"]).code


def test_a_local_variable_that_another_cell_has_too_is_no_use_of_it(notebook: Notebook) -> None:
    notebook.run("model = object()")
    notebook.run("def train_func(config):\n    model = 1\n    return [model for model in (model, 2)]")
    assert run_source(find_source(notebook.names["train_func"]))["train_func"]({}) == [1, 2]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["model = object()", "def f():\n    return model"], "uses model, which another cell defines"),
        (["def help_me(): ...", "def f():\n    help_me()"], "uses help_me, which another cell defines"),
        (["def f():\n    return nothing"], "uses nothing, which is not defined"),
        (["def f(): ...\nprint(f)"], r"line 2 of its cell would run in each pod: print\(f\)"),
        (["def f(): ...\nfor x in (): pass"], "line 2 of its cell would run in each pod: for x"),
        (["from math import pi", "def f():\n    return pi"], "uses pi, which another cell defines"),
    ],
)
def test_what_a_cell_cannot_bring_along_is_refused(cells: list[str], why: str, notebook: Notebook) -> None:
    for cell in cells:
        notebook.run(cell)
    with pytest.raises(ClientError, match=why) as error:
        find_source(notebook.names["f"])
    assert error.value.code == ExitCode.USAGE


def test_an_import_that_a_cell_has_itself_is_not_repeated() -> None:
    cell = "from math import pi\ndef f():\n    return pi\n"
    assert complete_cell(cell, {"pi": math.pi}) == cell


def make_closure() -> Callable[[], int]:
    value = 3
    return lambda: value


def make_named_closure() -> Callable[[], int]:
    value, other = 3, 4

    def train_func() -> int:
        return value + other

    return train_func


def make_inner() -> Callable[[], None]:
    def train_func() -> None: ...

    return train_func


class Trainer:
    def train(self) -> None: ...


def replaced() -> None: ...


OLD = replaced


def replaced() -> None: ...  # type: ignore[no-redef]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: None, "a lambda cannot be sent"),
        (make_closure(), "a lambda cannot be sent"),
        (make_named_closure(), "train_func cannot be sent to the pods: it is a closure over other, value"),
        (make_inner(), "it is defined inside make_inner.<locals>"),
        (Trainer.train, "it is defined inside Trainer"),
        (Trainer().train, "not a function but of type method"),
        (functools.partial(make_inner), "not a function but of type partial"),
        (Trainer, "not a function but of type type"),
        (OLD, "another object of that name"),
        (find_source, "railhead.client.submit.function_source is in a package"),
    ],
)
def test_a_function_that_pods_cannot_import_is_refused(function: Callable[..., object], why: str) -> None:
    with pytest.raises(ClientError, match=why):
        find_source(function)


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "<python-input-0>"])
def test_a_function_of_a_prompt_is_refused(file: str, notebook: Notebook) -> None:
    notebook.run("def f(): ...", file)
    with pytest.raises(ClientError, match="typed at a prompt; write it into a file or into a cell"):
        find_source(notebook.names["f"])


def test_a_cell_of_an_older_notebook_is_a_cell(notebook: Notebook) -> None:
    notebook.run("def f(): ...", "<ipython-input-1-0123456789ab>")
    assert find_source(notebook.names["f"]).code == "def f(): ..."


@pytest.mark.parametrize("module", ["helpers.py", "helpers/__init__.py"])
def test_a_module_of_the_same_folder_is_named_because_it_is_not_sent(
    module: str, tmp_path: Path, import_file: Import
) -> None:
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / module).write_text("")
    text = "import os\ndef main():\n    from helpers import other\n"
    with pytest.raises(ClientError, match="imports helpers of the same folder"):
        find_source(import_file(text).main)


@pytest.mark.parametrize("file", ["my-train.py", "train.txt"])
def test_a_file_that_python_cannot_import_is_refused(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("def f(): ...")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def f(): ...", str(tmp_path / file), "exec"), names)
    assert isinstance(names["f"], FunctionType)
    with pytest.raises(ClientError, match=f"Python cannot import the file {file}"):
        find_source(names["f"])
