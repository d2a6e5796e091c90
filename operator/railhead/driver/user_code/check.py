"""A cheap check of trainer.trainFunc before training: does the source have this function?

Imports nothing: importing torch would compete with Ray's start for the CPU, and the head may
lack what workers have. Rejects only where the workers are bound to come to the same result, later,
when their pods run: for code in the mounted source. The rest is left to the workers.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Optional

from railhead.driver.errors import JobRefused

_DYNAMIC = ("*", "__getattr__", "globals", "setattr", "exec", "vars")  # with these, names can come from elsewhere


def check_function(field: str, entrypoint: str, *, source: Optional[str]) -> None:
    """Raises JobRefused. Skips an empty entrypoint, which the job does not use."""
    problem = find_problem(entrypoint, source=source) if entrypoint else ""
    if problem:
        raise JobRefused("EntrypointNotUsable", f"{field} {entrypoint}: {problem}")


def find_problem(entrypoint: str, *, source: Optional[str]) -> str:
    """Python's own message for the problem, or an empty string."""
    if not source:
        return ""
    module, _, function = entrypoint.partition(":")
    file = find_file(Path(source), module)
    if file is None:
        return ""
    try:
        tree = ast.parse(file.read_bytes(), filename=file.name)
    except SyntaxError as error:
        return f"SyntaxError: {error.msg} ({file.name}, line {error.lineno})"
    except (OSError, ValueError):
        return ""
    name = function.partition(".")[0]
    if not find_names(tree).isdisjoint({name, *_DYNAMIC}):
        return ""
    return f"AttributeError: module '{module}' has no attribute '{name}' ({file.name} of spec.source)"


def check_folder(source: Optional[str]) -> None:
    """Only an image can lack it: all other kinds of spec.source create the folder. Raises JobRefused."""
    if source and not Path(source).is_dir():
        problem = f"spec.source.image.path: the image has no such folder; {source} does not exist"
        raise JobRefused("SourceNotFound", problem)


def find_file(folder: Path, module: str) -> Optional[Path]:
    path = folder.joinpath(*module.split("."))
    for candidate in (path.with_name(path.name + ".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def find_names(tree: ast.Module) -> set[str]:
    """Every name that the module defines, imports or uses, at any depth, so that an `if` around it does no harm."""
    found = (getattr(node, key, None) for node in ast.walk(tree) for key in ("name", "asname", "id"))
    return {name.partition(".")[0] for name in found if isinstance(name, str)}
