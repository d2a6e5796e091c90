"""Runs when any of Ray's Python processes starts: adds the user's folders to sys.path.

The bundle's `sitecustomize` shadows the image's own, if there is one, so this runs that one
as well. Never raises: a Ray process must come up whatever the image looks like.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import PurePath

from railhead.driver.container.user_code import add_user_folders


def customize(own_file: str) -> None:
    """Prepares this process; `own_file`: the path of the bundle's `sitecustomize`, inside the bundle."""
    bundle = str(PurePath(own_file).parent)
    try:
        run_hidden([entry for entry in sys.path if entry != bundle])
    except Exception as error:
        print(f"railhead: the image's own sitecustomize raised {error!r}", file=sys.stderr)
    add_user_folders()
    # Set by `head.script_process`; all other Ray processes skip the import.
    if os.environ.get("RAILHEAD_SCRIPT"):
        from railhead.driver.script.import_hooks import install_hooks

        install_hooks()
    # Set by `pod.worker`, for Ray's log monitor.
    if os.environ.get("RAILHEAD_ONLY_RANK_0"):
        from railhead.driver.ray.daemons import install_filter
        from railhead.driver.script.import_hooks import AfterImport

        sys.meta_path.insert(0, AfterImport({"ray._raylet": install_filter}))


def run_hidden(path: list[str]) -> None:
    """Runs the `sitecustomize` that Python would have found on this path, if there is one."""
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))
