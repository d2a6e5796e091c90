"""What is handed to Ray: a function of ours that imports the user's on the worker and calls it.

Runs once per rank, in Ray Train's training thread. The user's folders come last on
sys.path, so that a user's `queue.py` cannot take the place of the standard library's.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any, Callable, Optional

from railhead.contract import environment as e
from railhead.driver.errors import EntrypointNotUsable, TrainFunctionRaised, build_training_error
from railhead.driver.marks import BEGIN, END, name_process, write_marks
from railhead.driver.pod import WORKING_FOLDER

ENTRYPOINT, CONFIG = "entrypoint", "config"

# What a broken entrypoint raises while it is imported. Anything else (a network that does
# not answer, a full disk) may be different the next time.
_LASTING = (ImportError, SyntaxError, AttributeError, NameError, TypeError)


def run_train_func(values: dict[str, Any]) -> Any:
    """`values`: {entrypoint: "module:function", config: trainLoopConfig}."""
    rank, process = _find_self()
    write_marks(BEGIN, rank=rank, process=process)
    try:
        function = _load(values[ENTRYPOINT], rank)
        return _call(function, values.get(CONFIG) or {}, rank)
    finally:
        write_marks(END, rank=rank, process=process)


def _load(entrypoint: str, rank: int) -> Callable[..., Any]:
    try:
        return load_function(entrypoint, folders=find_user_folders())
    except _LASTING as error:
        raise build_training_error(EntrypointNotUsable, rank, error) from error
    except Exception as error:
        raise build_training_error(TrainFunctionRaised, rank, error) from error


def _call(function: Callable[..., Any], config: dict[str, Any], rank: int) -> Any:
    try:
        takes_config = has_parameter(function)
    except (TypeError, ValueError) as error:
        raise build_training_error(EntrypointNotUsable, rank, error) from error
    try:
        result = function(config) if takes_config else function()
    except Exception as error:
        raise build_training_error(TrainFunctionRaised, rank, error) from error
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        raise build_training_error(TrainFunctionRaised, rank, error) from error
    # The controller may lack the result's class, and nobody asks for it.
    return result if isinstance(result, (str, int, float, bool)) else None


def load_function(entrypoint: str, *, folders: list[str]) -> Callable[..., Any]:
    """Imports `module:function`. Raises what the import raises, or AttributeError."""
    module_name, _, function_name = entrypoint.partition(":")
    for folder in folders:
        if folder not in sys.path:
            sys.path.append(folder)
    importlib.invalidate_caches()
    module = importlib.import_module(module_name)
    hidden = find_hidden(module_name, getattr(module, "__file__", None), folders)
    if hidden:
        raise ImportError(hidden)
    found: Any = module
    for part in function_name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{entrypoint} is not a function")
    return found  # type: ignore[no-any-return]


def find_hidden(module_name: str, file: Optional[str], folders: list[str]) -> str:
    """Why the imported module is not the user's, when the user's source has one of that name."""
    top = module_name.partition(".")[0]
    for folder in folders[:1]:
        mine = [p for p in (Path(folder, top + ".py"), Path(folder, top, "__init__.py")) if p.exists()]
        if mine and not (file and Path(folder).resolve() in Path(file).resolve().parents):
            where = f"the installed {file}" if file else "a module of Python itself"
            return f"{mine[0].name} of spec.source is hidden by {where}; give it another name"
    return ""


def find_user_folders() -> list[str]:
    """The mounted source, then the container's working directory (code that is in the image)."""
    return [os.environ[name] for name in (e.SOURCE, WORKING_FOLDER) if os.environ.get(name)]


def has_parameter(function: Callable[..., Any]) -> bool:
    """Whether it takes trainLoopConfig. As in Ray Train: one required parameter, or none."""
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.default is p.empty and p.kind in positional]
    if len(required) > 1:
        raise TypeError(f"the function takes {len(required)} required parameters; it may take one, trainLoopConfig")
    return len(required) == 1


def _find_self() -> tuple[int, str]:
    """Rank and process."""
    import ray.train

    import ray

    process = name_process(ray.get_runtime_context().get_node_id(), os.getpid())
    return int(ray.train.get_context().get_world_rank()), process
