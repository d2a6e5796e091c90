"""What every Python process of Ray does at its start: the user's folders come onto sys.path.

The bundle's `sitecustomize` hides another one that the image may have, so that one is run
as well. Never raises: a process of Ray must come up whatever the image looks like.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import PurePath

from railhead.driver.user_code.path import add_user_folders


def customize(own_file: str) -> None:
    """`own_file`: the path of the bundle's `sitecustomize`, inside the bundle."""
    bundle = str(PurePath(own_file).parent)
    try:
        run_hidden([entry for entry in sys.path if entry != bundle])
    except Exception as error:
        print(f"railhead: the image's own sitecustomize raised {error!r}", file=sys.stderr)
    add_user_folders()
    if os.environ.get("RAILHEAD_SCRIPT"):  # as in `script.run`; all other processes of Ray go without the import
        from railhead.driver.script.hooks import install_hooks

        install_hooks()


def run_hidden(path: list[str]) -> None:
    """Runs the `sitecustomize` that Python would have found on this path, if there is one."""
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))
