"""Railhead: a Kubernetes operator for distributed training with Ray Train."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railhead.client.errors import ClientError as ClientError
    from railhead.client.session import Client as Client
    from railhead.client.session import Job as Job

__version__ = "0.1.0"
_FROM = {"Client": "session", "Job": "session", "ClientError": "errors"}


def __getattr__(name: str) -> object:
    """Imports what scripts and notebooks use when they do. Pods of a job, which run the same file, lack it."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module("railhead.client." + _FROM[name]), name)
    except ModuleNotFoundError as error:
        return _make_absent(name, str(error))


def _make_absent(name: str, why: str) -> type:
    """Returns a class that can be imported; a call of it says what is missing."""

    def refuse(*_: object, **__: object) -> None:
        remedy = "in a job's pod, where nothing is submitted, call it below `if __name__ == '__main__':` only"
        raise ModuleNotFoundError(f"railhead.{name} needs pip install 'railhead-train[client]' ({why}); {remedy}")

    return type(name, (Exception,), {"__init__": refuse})
