"""The default of a callback."""

from __future__ import annotations


def ignore(*_: object, **__: object) -> None:
    """Does nothing, whatever it is called with."""


def always(*_: object) -> bool:
    """Allows everything."""
    return True
