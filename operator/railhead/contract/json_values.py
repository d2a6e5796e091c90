"""Frozen dataclasses from their own JSON, which `dataclasses.asdict` makes: the JSON has the fields' names.

Without pydantic, which not every user's image has.
"""

from __future__ import annotations

import functools
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Dict, Union, get_args, get_origin, get_type_hints

# What JSON may have for each type; True is no number.
_SCALARS = {str: (str,), int: (int,), float: (float, int), bool: (bool,)}


def load_value(kind: Any, value: Any) -> Any:
    """Returns a value of this type. Unknown keys are dropped: a newer operator or driver may have written them.

    Raises TypeError if a dataclass has no JSON object, or lacks a field without a default. Does not check scalars.
    """
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Union:  # Optional
        if value is None:
            return None
        return load_value(arguments[0], value)
    if origin is tuple:
        return tuple(load_value(arguments[0], each) for each in value)
    if origin is dict:
        return {key: load_value(arguments[1], each) for key, each in value.items()}
    if origin is not None or not isinstance(kind, type):
        return value
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{kind.__name__} is not a JSON object")
        hints = _read_hints(kind)
        known = {name: each for name, each in value.items() if name in hints}
        return kind(**{name: load_value(hints[name], each) for name, each in known.items()})
    if issubclass(kind, Enum):
        return kind(value)
    return value


def load_checked(kind: Any, value: Any) -> Any:
    """Returns a value of this type like `load_value`, for JSON that anybody may have written.

    Raises TypeError or ValueError for a scalar, a list or an object in the place of another type, too.
    """
    try:
        loaded = load_value(kind, value)
    except AttributeError as error:  # an object is wanted, and there is another value
        raise TypeError(str(error)) from None
    _check_types(kind, loaded, value)
    return loaded


def _check_types(kind: Any, loaded: Any, value: Any) -> None:
    """Raises TypeError unless `loaded`, which was made of the JSON `value`, has this type."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Union:
        if loaded is not None:
            _check_types(arguments[0], loaded, value)
    elif origin is tuple:
        # A text would become a tuple of its characters.
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{value!r:.100} is not a list")
        for each, its_value in zip(loaded, value):
            _check_types(arguments[0], each, its_value)
    elif origin is dict:
        for key, each in loaded.items():
            _check_types(arguments[1], each, value[key])
    elif isinstance(kind, type) and is_dataclass(kind):
        for name, hint in _read_hints(kind).items():
            if name in value:
                _check_types(hint, getattr(loaded, name), value[name])
    elif kind in _SCALARS and type(loaded) not in _SCALARS[kind]:
        raise TypeError(f"{loaded!r:.100} is no {kind.__name__}")


@functools.cache
def _read_hints(kind: type) -> Dict[str, Any]:
    return get_type_hints(kind)
