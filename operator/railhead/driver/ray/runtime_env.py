"""Prepares spec.runtimeEnv for Ray Train's workers: has Ray check it before training, and uploads its local folders.

Ray accepts local folders only for a whole Ray job (`ray.init`), where they would also come first on
the path of Ray's own processes; so we upload them with the functions that `ray.init` uses.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
from pathlib import Path
from typing import Any, Mapping, Sequence

from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.exception_text import read_text

FIELD = "spec.runtimeEnv"
KEYS = ("env_vars", "pip", "uv", "conda", "working_dir", "py_modules", "excludes", "config")
INSTALLERS = ("pip", "uv", "conda")
PYTHONPATH = "PYTHONPATH"


def _refuse(message: str) -> JobRefused:
    return JobRefused("RuntimeEnvNotUsable", message)


def _shorten(error: BaseException) -> str:
    return " ".join(read_text(error).split())[:600]


def prepare_runtime_env(wanted: Mapping[str, Any], *, folders: Sequence[str], bundle: str) -> dict[str, Any]:
    """Returns what Ray receives; `folders`: where to look up relative paths. Raises JobRefused."""
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
    # It replaces the pod's own, without which a worker cannot import our modules. The order is that of the pod's own.
    if PYTHONPATH in variables:
        result["env_vars"] = {**variables, PYTHONPATH: f"{bundle}{os.pathsep}{variables[PYTHONPATH]}"}
    _check_tools(result)
    _check_with_ray(result)
    return result


def is_local(key: str, value: str) -> bool:
    """Returns whether it names a file or folder in the head pod. A conda environment may also be given by name."""
    if key == "conda":
        return value.endswith((".yml", ".yaml"))
    return "://" not in value


def find_path(field: str, value: str, folders: Sequence[str]) -> str:
    """Returns the absolute path of the first match."""
    if os.path.isabs(value):
        places = [Path(value)]
    else:
        places = [Path(folder, value) for folder in folders]
    for place in places:
        if place.exists():
            return str(place.resolve())
    where = value if os.path.isabs(value) else f"{value} in {' or '.join(folders)}"
    raise _refuse(f"{field}: the head pod has no {where}; set an existing path or a URI")


def _check_tools(values: Mapping[str, Any]) -> None:
    installer = next((key for key in ("pip", "uv") if key in values), None)
    if installer and importlib.util.find_spec("virtualenv") is None:
        raise _refuse(
            f"{FIELD}.{installer}: spec.image has no virtualenv, which Ray uses to install packages; "
            "add it to the image (pip install virtualenv), or install the packages in the image"
        )


def _check_with_ray(values: Mapping[str, Any]) -> None:
    from ray.runtime_env import RuntimeEnv

    try:
        RuntimeEnv(**dict(values))
    except (ValueError, TypeError) as error:
        raise _refuse(f"{FIELD}: Ray rejects it: {_shorten(error)}") from error


def upload_local_folders(values: dict[str, Any], *, scratch: str) -> None:
    """Replaces local folders and files with Ray's URIs, in place. Needs a connection to Ray. Raises JobRefused."""
    if not values:
        return
    try:
        from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
        from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

        for upload in (upload_py_modules_if_needed, upload_working_dir_if_needed):
            # Ray versions differ in the options that they accept.
            known = inspect.signature(upload).parameters
            options = {"scratch_dir": scratch, "include_gitignore": True}
            taken: dict[str, Any] = {name: value for name, value in options.items() if name in known}
            values.update(upload(dict(values), **taken))
    except Exception as error:
        raise _refuse(f"{FIELD}: Ray cannot upload it: {_shorten(error)}") from error
    values.pop("excludes", None)  # already applied
