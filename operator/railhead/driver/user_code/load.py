"""Loads `module:name` of the user's code, and detects when another module shadows it."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any, Callable, Optional

from railhead.driver.user_code.path import add_user_folders, find_user_folders
from railhead.driver.user_code.runtime_env import is_uploaded


def load_object(reference: str) -> Any:
    """Imports `module:name`. Raises what the import raises, or AttributeError."""
    module_name, _, name = reference.partition(":")
    add_user_folders()
    importlib.invalidate_caches()
    module = importlib.import_module(module_name)
    hidden = find_hidden(module_name, getattr(module, "__file__", None), find_user_folders())
    if hidden:
        raise ImportError(hidden)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def load_function(reference: str) -> Callable[..., Any]:
    """As `load_object`; TypeError when it cannot be called."""
    found = load_object(reference)
    if not callable(found):
        raise TypeError(f"{reference} is not a function")
    return found  # type: ignore[no-any-return]


def find_hidden(module_name: str, file: Optional[str], folders: list[str]) -> str:
    """Why the imported module is not the user's, if the user's source has one of that name; or an empty string."""
    top = module_name.partition(".")[0]
    for folder in folders[:1]:
        mine = [p for p in (Path(folder, top + ".py"), Path(folder, top, "__init__.py")) if p.exists()]
        if mine and not is_uploaded(file) and not (file and Path(folder).resolve() in Path(file).resolve().parents):
            where = f"the installed {file}" if file else "a module of Python itself"
            return f"{mine[0].name} of spec.source is shadowed by {where}; give it another name"
    return ""


_NOT_RUN_BY_A_CALL = (
    (inspect.iscoroutinefunction, "asynchronous (async def)"),
    (inspect.isasyncgenfunction, "an asynchronous generator"),
    (inspect.isgeneratorfunction, "a generator (it has a yield)"),
)


def has_parameter(function: Callable[..., Any]) -> bool:
    """Whether it takes trainLoopConfig. As in Ray Train: one required parameter, or none.

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
