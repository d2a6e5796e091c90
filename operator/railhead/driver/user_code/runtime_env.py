"""spec.runtimeEnv for Ray Train's workers: checked by Ray before training, local folders uploaded.

Ray takes local folders for a whole job only (`ray.init`), where they would also come first on
the path of Ray's own processes; so they are uploaded here by the functions that `ray.init` uses.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from railhead.driver.errors import JobRefused

FIELD = "spec.runtimeEnv"
KEYS = ("env_vars", "pip", "uv", "conda", "working_dir", "py_modules", "excludes", "config")
PYTHONPATH = "PYTHONPATH"


def _refuse(message: str) -> JobRefused:
    return JobRefused("RuntimeEnvNotUsable", message)


def prepare_runtime_env(wanted: Mapping[str, Any], *, folders: Sequence[str], bundle: str) -> dict[str, Any]:
    """What Ray is told; `folders`: where relative paths are looked for. Raises JobRefused."""
    if not wanted:
        return {}
    unknown = [key for key in wanted if key not in KEYS]
    if unknown:
        raise _refuse(f"{FIELD}.{unknown[0]}: this version of Railhead has no such key; use {', '.join(KEYS)}")
    result = dict(wanted)
    for key in ("working_dir", "pip", "uv", "conda"):
        if isinstance(result.get(key), str) and is_local(key, result[key]):
            result[key] = find_path(f"{FIELD}.{key}", result[key], folders)
    if "py_modules" in result:
        names = enumerate(result["py_modules"])
        result["py_modules"] = [
            find_path(f"{FIELD}.py_modules[{i}]", name, folders) if is_local("py_modules", name) else name
            for i, name in names
        ]
    variables = dict(result.get("env_vars") or {})
    if PYTHONPATH in variables:  # it takes the place of the pod's own, without which a worker finds nothing of ours
        result["env_vars"] = {**variables, PYTHONPATH: f"{variables[PYTHONPATH]}{os.pathsep}{bundle}"}
    _check_tools(result)
    _ask_ray(result)
    return result


def is_local(key: str, value: str) -> bool:
    """Whether it names a file or folder of the head pod. A conda environment can also be known by its name."""
    if key == "conda":
        return value.endswith((".yml", ".yaml"))
    return "://" not in value


def find_path(field: str, value: str, folders: Sequence[str]) -> str:
    """The absolute path of what is there."""
    places = [Path(value)] if os.path.isabs(value) else [Path(folder, value) for folder in folders]
    for place in places:
        if place.exists():
            return str(place.resolve())
    where = value if os.path.isabs(value) else f"{value} in {' or '.join(folders)}"
    raise _refuse(f"{field}: the head pod has no {where}; give a path that is there, or a URI")


def _check_tools(values: Mapping[str, Any]) -> None:
    installer = next((key for key in ("pip", "uv") if key in values), None)
    if installer and importlib.util.find_spec("virtualenv") is None:
        raise _refuse(
            f"{FIELD}.{installer}: spec.image has no virtualenv, by which Ray installs packages; "
            "add it to the image (pip install virtualenv), or put the packages there"
        )


def _ask_ray(values: Mapping[str, Any]) -> None:
    from ray.runtime_env import RuntimeEnv

    try:
        RuntimeEnv(**dict(values))
    except (ValueError, TypeError) as error:
        raise _refuse(f"{FIELD}: Ray refuses it: {' '.join(str(error).split())[:600]}") from error


def upload_local_folders(values: dict[str, Any], *, scratch: str) -> None:
    """Local folders and files become URIs of Ray's, in place. Needs the connection to Ray. Raises JobRefused."""
    if not values:
        return
    from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
    from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

    try:
        for upload in (upload_py_modules_if_needed, upload_working_dir_if_needed):
            values.update(_call(upload, values, scratch_dir=scratch, include_gitignore=True))
    except Exception as error:
        raise _refuse(f"{FIELD}: Ray cannot upload it: {' '.join(str(error).split())[:600]}") from error
    values.pop("excludes", None)  # they have had their effect


def _call(function: Callable[..., Any], values: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Ray's versions differ in the options that they take."""
    known = inspect.signature(function).parameters
    result: dict[str, Any] = function(dict(values), **{k: v for k, v in options.items() if k in known})
    return result


def brings_modules(values: Mapping[str, Any]) -> bool:
    """Whether the workers may find modules there before they look into the source."""
    variables = values.get("env_vars") or {}
    return any(key in values for key in ("working_dir", "py_modules", "conda")) or PYTHONPATH in variables


def is_uploaded(file: Optional[str]) -> bool:
    """Whether a module comes from working_dir or py_modules, as Ray has unpacked them."""
    return bool(file) and "runtime_resources" in Path(file or "").parts
