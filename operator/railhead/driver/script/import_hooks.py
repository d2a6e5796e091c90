"""Patches Ray in the process of the user's script as soon as the script imports it, not before.

`ray.init()` finds the pod's own Ray node, a RunConfig gets what it leaves unset from the job, and fit() of Ray Train's
trainers is watched (`watched_fit`). The script needs no change for this; `site` installs the hooks.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Mapping, Optional, Sequence

from railhead.contract import environment

Action = Callable[[Any], None]


def install_hooks() -> None:
    """Installs all hooks; call it before the script's first import."""
    from railhead.driver.script.watched_fit import complete_run_configs, watch_trainers

    actions = {
        "ray": use_own_node,
        "ray.train.v2.api.config": complete_run_configs,
        "ray.train.v2.api.data_parallel_trainer": watch_trainers,
    }
    sys.meta_path.insert(0, AfterImport(actions))


class AfterImport(MetaPathFinder):
    """Runs an action on a module right after its import."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self._actions = dict(actions)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        # Taken out while the others look for the module, since the action runs once.
        action = self._actions.pop(fullname, None)
        if action is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                _follow(spec.loader, action)
                return spec
        # The module is not there yet; it may be at the next import.
        self._actions[fullname] = action
        return None


def _follow(loader: Any, action: Action) -> None:
    """Makes the loader run the action after it has loaded its module, which is the only one that it loads."""
    original = loader.exec_module

    def exec_module(module: Any) -> None:
        # The class's own method is back before the module runs: a reload is not followed.
        del loader.exec_module
        original(module)
        action(module)

    loader.exec_module = exec_module


def use_own_node(ray: Any) -> None:
    """Makes ray.init() join this pod's node: several Ray nodes may run on one machine, and Ray would have to guess."""
    original = ray.init

    @functools.wraps(original)
    def init(address: Optional[str] = None, *arguments: object, **options: object) -> object:
        if address in (None, "auto", os.environ.get("RAY_ADDRESS")):
            options.setdefault("_node_ip_address", os.environ[environment.POD_IP])
        return original(address, *arguments, **options)

    ray.init = init
