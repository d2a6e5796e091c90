"""The source of a training function as the pods get it: the file of its module, or its cell of a notebook."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import symtable
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from railhead.client.exit_codes import ClientError, ExitCode

CELL = "notebook_cell"  # the module that a cell becomes
OTHERS = "Put the code into the image, or bring it with spec.source and `railhead submit` of a YAML file."
# Statements that define names. Any other one, such as the call of submit, would run in each pod.
_DEFINITIONS = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Assign, ast.AnnAssign, ast.If, ast.Try),
)
_OF_MODULES = frozenset({"__name__", "__file__", "__doc__"})


@dataclass(frozen=True)
class FunctionSource:
    """One Python file.

    Attributes:
        module: its name without .py.
        function: the training function in it.
        code: its text.
    """

    module: str
    function: str
    code: str


def find_source(function: Callable[..., object]) -> FunctionSource:
    """Returns the source of the module or of the notebook cell that defines the function.

    Raises:
        ClientError: the pods could not import the function from it; says why.
    """
    _check(function)
    name = function.__name__
    file = inspect.unwrap(function).__code__.co_filename
    path = Path(file)
    if path.is_file():
        found = _read_module(function, path)
        folder = path.parent
    elif linecache.getlines(file) and (not file.startswith("<") or file.startswith("<ipython-input")):
        cell = "".join(linecache.getlines(file))
        found = FunctionSource(CELL, name, complete_cell(cell, function.__globals__))
        folder = Path.cwd()
    else:
        raise _refuse(name, "it was typed at a prompt; write it into a file or into a cell of a notebook")
    for module in sorted(_list_imports(found.code)):
        if (folder / f"{module}.py").is_file() or (folder / module / "__init__.py").is_file():
            raise _refuse(name, f"its file imports {module} of the same folder, and only one file is sent. {OTHERS}")
    return found


def _check(function: Callable[..., object]) -> None:
    """Refuses what no pod can import by a name."""
    if not inspect.isfunction(function):
        raise _refuse(repr(function), f"it is not a function but of type {type(function).__name__}")
    name = function.__name__
    if name == "<lambda>":
        raise _refuse("a lambda", "pods import the function by its name; write it with def")
    if function.__closure__ and "<locals>" in function.__qualname__:
        variables = ", ".join(function.__code__.co_freevars)
        message = f"it is a closure over {variables}; define it at the top level, and pass values in config"
        raise _refuse(name, message)
    outer, _, _ = function.__qualname__.rpartition(".")
    if outer:
        raise _refuse(name, f"it is defined inside {outer}; move it to the top level")
    if inspect.unwrap(function).__globals__.get(name) is not function:
        raise _refuse(name, "its module has another object of that name; define it again")


def _read_module(function: Callable[..., object], path: Path) -> FunctionSource:
    name = function.__name__
    module = path.stem
    if "." in function.__module__ or path.name == "__init__.py":
        raise _refuse(name, f"{function.__module__} is in a package, and only one file is sent. {OTHERS}")
    if path.suffix != ".py" or not module.isidentifier():
        raise _refuse(name, f"Python cannot import the file {path.name}; rename it to letters, digits and _, with .py")
    try:
        return FunctionSource(module, name, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _refuse(name, f"{path} cannot be read: {error}") from None


def complete_cell(cell: str, known: Mapping[str, object]) -> str:
    """Returns the cell with the imports of other cells that it needs. `known`: the variables of the notebook.

    Raises:
        ClientError: the cell does more than to define names, or uses a name that only another cell defines.
    """
    tree = ast.parse(cell)
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not isinstance(node, _DEFINITIONS):
            line = (ast.get_source_segment(cell, node) or "").partition("\n")[0]
            message = f"line {node.lineno} of its cell would run in each pod: {line}; move it into another cell"
            raise _refuse("the function", message)
    imports = [_write_import(name, known) for name in sorted(_list_free_names(cell))]
    first = next((node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"), None)
    lines = cell.splitlines(keepends=True)
    # Python refuses `from __future__` after any other import.
    at = (first.end_lineno or 0) if first is not None else 0
    return "".join([*lines[:at], *imports, *lines[at:]])


def _list_free_names(cell: str) -> set[str]:
    """Returns the names that the cell uses and does not define, without those of Python."""
    top = symtable.symtable(cell, "cell", "exec")
    used = {each.get_name() for each in top.get_symbols() if each.is_referenced()}
    for scope in _list_scopes(top):
        used |= {each.get_name() for each in scope.get_symbols() if each.is_global()}
    defined = {each.get_name() for each in top.get_symbols() if each.is_assigned() or each.is_imported()}
    return used - defined - _OF_MODULES - set(dir(builtins))


def _list_scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _list_scopes(child)


def _write_import(name: str, known: Mapping[str, object]) -> str:
    """Returns the line that imports what the notebook knows under the name."""
    if name not in known:
        raise _refuse("the function", f"its cell uses {name}, which is not defined")
    value = known[name]
    if isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
        if value.__name__ != name:
            return f"import {value.__name__} as {name}\n"
        return f"import {name}\n"
    module = getattr(value, "__module__", None)
    own = getattr(value, "__qualname__", None)
    is_imported = isinstance(module, str) and isinstance(own, str) and module != "__main__"
    if not is_imported or getattr(sys.modules.get(str(module)), str(own), None) is not value:
        raise _refuse("the function", f"its cell uses {name}, which another cell defines; move both into one cell")
    if own != name:
        return f"from {module} import {own} as {name}\n"
    return f"from {module} import {name}\n"


def _list_imports(code: str) -> set[str]:
    """Returns the first part of each module that the code imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _refuse(name: str, why: str) -> ClientError:
    return ClientError(f"{name} cannot be sent to the pods: {why}", ExitCode.USAGE)
