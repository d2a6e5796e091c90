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


class StandIn:
    """Stands for torch, or for something of it, until it is called or, after Ray's import, looked into."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name == "is_available":  # of torch.distributed; where it is not, the ranks report it
            return lambda: True
        if not isinstance(sys.modules.get(TORCH), StandIn):
            return getattr(pkgutil.resolve_name(self._path), name)
        if name.startswith("__"):  # the import system asks for some of a module
            raise AttributeError(name)
        return StandIn(f"{self._path}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if isinstance(sys.modules.get(TORCH), StandIn):
            raise ImportError(f"{CONFIG} needs {self._path} when it is imported")
        return pkgutil.resolve_name(self._path)(*arguments, **options)


def leave_out_torch() -> None:
    """Works in this process, and in each that receives a TorchConfig from it. Never raises: Ray's own import does."""
    with suppress(Exception):
        copyreg.pickle(import_config().TorchConfig, lambda config: (make_config, (), vars(config)))


def import_config() -> Any:
    """Returns the module CONFIG; imports torch too in a Ray for which this does not work."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec and CONFIG not in sys.modules and TORCH not in sys.modules:
        stand_ins: dict[str, Any] = {name: StandIn(name) for name in (TORCH, f"{TORCH}.distributed")}
        sys.modules.update(stand_ins, **{PACKAGE: importlib.util.module_from_spec(spec)})
        with suppress(Exception):
            importlib.import_module(CONFIG)
        for name in (PACKAGE, *stand_ins):
            sys.modules.pop(name, None)
    return importlib.import_module(CONFIG)


def make_config() -> Any:
    """Returns a TorchConfig without attributes, which pickle then sets."""
    return object.__new__(import_config().TorchConfig)
