"""Uploads the local folders and files of spec.runtimeEnv with the functions that `ray.init` uses."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from railhead.driver.describe import read_text
from railhead.driver.errors import JobRefused


def upload_local_folders(values: dict[str, Any], *, scratch: str) -> None:
    """Replaces local folders and files with Ray's URIs, in place. Needs a connection to Ray. Raises JobRefused."""
    if not values:
        return
    try:
        from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
        from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

        for upload in (upload_py_modules_if_needed, upload_working_dir_if_needed):
            values.update(_call(upload, values, scratch_dir=scratch, include_gitignore=True))
    except Exception as error:
        text = " ".join(read_text(error).split())[:600]
        raise JobRefused("RuntimeEnvNotUsable", f"spec.runtimeEnv: Ray cannot upload it: {text}") from error
    values.pop("excludes", None)  # already applied


def _call(function: Callable[..., Any], values: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Ray versions differ in the options that they accept."""
    known = inspect.signature(function).parameters
    result: dict[str, Any] = function(dict(values), **{k: v for k, v in options.items() if k in known})
    return result
