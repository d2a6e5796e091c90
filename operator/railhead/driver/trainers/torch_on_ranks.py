"""Imports Ray Train's TorchConfig in the driver and in Ray Train's controller without torch, which only the ranks use.

Importing torch takes 2 s of processor time and 270 MiB in each of them, and the worker group waits for the controller.
Ray's module `ray.train.torch.config` has functions that run on the ranks, besides a few lines that tell them to. So it
is imported with a stand-in for torch, which imports the real one as soon as anything is done with it, and without its
package, whose other modules need torch. A Ray for which this does not work imports torch, as it does by itself.

Source: `_TorchBackend` in `ray/train/torch/config.py`; tests/ray/test_contract.py checks what this relies on.
"""

from __future__ import annotations

import copyreg
import importlib
import importlib.util
import sys
from contextlib import contextmanager, suppress
from functools import reduce
from types import ModuleType
from typing import Any, Callable, Iterator, Mapping

PACKAGE = "ray.train.torch"
CONFIG = f"{PACKAGE}.config"
TORCH, DISTRIBUTED = "torch", "torch.distributed"


class StandIn:
    """For torch, or for something of it, which is imported when it is called or, after Ray's import, looked into."""

    is_importing = False  # Ray's module, whose annotations and constants need no more than a name

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if not StandIn.is_importing:
            return getattr(self._import(), name)
        if name.startswith("__"):  # of a module; the import system asks for them
            raise AttributeError(name)
        return StandIn(f"{self._path}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._import()(*arguments, **options)

    def _import(self) -> Any:
        if StandIn.is_importing:
            raise ImportError(f"{CONFIG} needs {self._path} when it is imported")
        _, *names = self._path.split(".")
        return reduce(getattr, names, importlib.import_module(TORCH))


def leave_out_torch() -> None:
    """In this process, and in each that receives a TorchConfig from it. What fails here fails for who uses it."""
    with suppress(Exception):
        copyreg.pickle(import_config().TorchConfig, _reduce)


def import_config() -> ModuleType:
    """The module CONFIG."""
    if CONFIG not in sys.modules and TORCH not in sys.modules:
        with suppress(Exception), _stand_in():
            importlib.import_module(CONFIG)
    return importlib.import_module(CONFIG)


def restore_config(options: Mapping[str, Any]) -> Any:
    """The TorchConfig of a pickle, as pickle would restore it."""
    kind = import_config().TorchConfig
    config = kind.__new__(kind)
    vars(config).update(options)
    return config


def _reduce(config: Any) -> tuple[Callable[..., Any], tuple[Mapping[str, Any]]]:
    return restore_config, (vars(config),)


@contextmanager
def _stand_in() -> Iterator[None]:
    """For torch and for Ray's package, until it ends."""
    package = ModuleType(PACKAGE)
    found = importlib.util.find_spec(PACKAGE)
    vars(package)["__path__"] = found.submodule_search_locations if found else []
    torch, distributed = StandIn(TORCH), StandIn(DISTRIBUTED)
    vars(torch)["distributed"] = distributed
    vars(distributed)["is_available"] = lambda: True  # where it is not, the ranks find out
    modules = {PACKAGE: package, TORCH: torch, DISTRIBUTED: distributed}
    sys.modules.update(modules)  # type: ignore[arg-type]
    StandIn.is_importing = True
    try:
        yield
    finally:
        StandIn.is_importing = False
        for name in modules:
            sys.modules.pop(name, None)
