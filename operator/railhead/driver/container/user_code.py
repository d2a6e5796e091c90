"""The user's own modules: where they are, and how to load them.

The bundle's `sitecustomize` calls `add_user_folders` when a Ray process starts, because Ray
pickles functions of the user's modules by name (tasks of Ray Data, functions of a trainer
that the user built). The folders come last on sys.path, so that a user's `queue.py` cannot shadow the standard
library's; never through PYTHONPATH, which would put them first. `load_object` detects when another module shadows the
user's.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any, Callable, Optional

from railhead.contract import environment

WORKING_FOLDER = "RAILHEAD_WORKING_FOLDER"  # of the container: Ray starts its workers elsewhere
_NOT_RUN_BY_A_CALL = (
    (inspect.iscoroutinefunction, "asynchronous (async def)"),
    (inspect.isasyncgenfunction, "an asynchronous generator"),
    (inspect.isgeneratorfunction, "a generator (it has a yield)"),
)


def list_user_folders() -> list[str]:
    """Returns the mounted source, then the container's working directory (code in the image)."""
    return [os.environ[name] for name in (environment.SOURCE, WORKING_FOLDER) if os.environ.get(name)]


def choose_working_folder() -> str:
    """Returns the folder in which the user's code runs in the head pod: the source, else the working directory."""
    return next(iter(list_user_folders()), "/")


def add_user_folders() -> None:
    for folder in list_user_folders():
        if folder not in sys.path:
            sys.path.append(folder)


def load_object(reference: str) -> Any:
    """Imports `module:name`. Raises what the import raises, or AttributeError."""
    module_name, _, name = reference.partition(":")
    add_user_folders()
    importlib.invalidate_caches()
    module = importlib.import_module(module_name)
    hidden = find_hidden(module_name, getattr(module, "__file__", None), list_user_folders())
    if hidden:
        raise ImportError(hidden)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def load_function(reference: str) -> Callable[..., object]:
    """Loads a function as `load_object` does. Raises TypeError when it cannot be called."""
    found = load_object(reference)
    if not callable(found):
        raise TypeError(f"{reference} is not a function")
    return found  # type: ignore[no-any-return]


def find_hidden(module_name: str, file: Optional[str], folders: list[str]) -> str:
    """Explains why the imported module is not the user's, if the first folder has one of that name; "" if it has none.

    The other folders come after it on sys.path, so theirs may well be another one.
    """
    if not folders or is_uploaded(file):
        return ""
    folder = Path(folders[0])
    top = module_name.partition(".")[0]
    own = next((path for path in (folder / f"{top}.py", folder / top / "__init__.py") if path.exists()), None)
    if own is None:
        return ""
    if file is not None and folder.resolve() in Path(file).resolve().parents:
        return ""
    other = f"the installed {file}" if file else "a module of Python itself"
    return f"{own.relative_to(folder)} of the job's code is shadowed by {other}; give it another name"


def is_uploaded(file: Optional[str]) -> bool:
    """Returns whether a module comes from working_dir or py_modules, as unpacked by Ray."""
    return bool(file) and "runtime_resources" in Path(file or "").parts


def has_parameter(function: Callable[..., object]) -> bool:
    """Returns whether it takes trainLoopConfig. As in Ray Train: one required parameter, or none.

    Raises TypeError for a function whose body a call does not run.
    """
    for is_one, kind in _NOT_RUN_BY_A_CALL:
        if is_one(function):
            raise TypeError(f"the function is {kind}, so calling it does not run its body; use a plain function")
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.default is p.empty and p.kind in positional]
    if len(required) > 1:
        raise TypeError(f"the function takes {len(required)} required parameters; it may take one, trainLoopConfig")
    return len(required) == 1
