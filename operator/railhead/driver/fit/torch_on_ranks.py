"""Imports Ray's TorchConfig in the head without torch, for jobs none of whose own code runs there: only ranks use it.

That saves 2 s and 270 MiB in the driver and in Ray Train's controller each. Ray's module is imported without its
package, and with a stand-in for torch that imports the real one when something is done with it, as on the ranks.
"""

import copyreg
import importlib.util
import pkgutil
import sys
from contextlib import suppress
from typing import Any

PACKAGE = "ray.train.torch"
CONFIG = "ray.train.torch.config"
TORCH = "torch"


def _return_true() -> bool:
    return True


class StandIn:
    """Stands for torch, or for something of it, until it is called or, after Ray's import, looked into."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        # torch.distributed.is_available, which Ray asks on import. Where it is not available, the ranks report it.
        if name == "is_available":
            return _return_true
        if not isinstance(sys.modules.get(TORCH), StandIn):
            return getattr(pkgutil.resolve_name(self._path), name)
        # The import system asks a module for some of these, and must not take a stand-in for them.
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._path}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if isinstance(sys.modules.get(TORCH), StandIn):
            raise ImportError(f"{CONFIG} needs {self._path} when it is imported")
        return pkgutil.resolve_name(self._path)(*arguments, **options)


def leave_out_torch() -> None:
    """Spares this process, and each that receives a TorchConfig from it, the import of torch.

    Never raises: if something is wrong, Ray's own import of the class raises.
    """
    with suppress(Exception):
        copyreg.pickle(import_config().TorchConfig, _reduce)


def _reduce(config: Any) -> Any:
    """Tells pickle to restore the config by `make_config`, which imports it without torch there too."""
    return make_config, (), vars(config)


def import_config() -> Any:
    """Returns the module CONFIG; imports torch too in a Ray for which this does not work."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec and CONFIG not in sys.modules and TORCH not in sys.modules:
        stand_ins: dict[str, Any] = {name: StandIn(name) for name in (TORCH, f"{TORCH}.distributed")}
        # The package without its own code, which would import all that Ray has for torch.
        stand_ins[PACKAGE] = importlib.util.module_from_spec(spec)
        sys.modules.update(stand_ins)
        with suppress(Exception):
            importlib.import_module(CONFIG)
        for name in stand_ins:
            sys.modules.pop(name, None)
    return importlib.import_module(CONFIG)


def make_config() -> Any:
    """Returns a TorchConfig without attributes, which pickle then sets."""
    return object.__new__(import_config().TorchConfig)
