"""Frozen dataclasses from their own JSON, which `dataclasses.asdict` makes: the JSON has the fields' names.

Without pydantic, which not every user's image has.
"""

from __future__ import annotations

import functools
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Callable, Collection, Dict, Mapping, Union, get_args, get_origin, get_type_hints

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
    """Returns a value of this type, for JSON that anybody may have written. Drops unknown keys, as `load_value` does.

    Raises TypeError for a value of another type anywhere in it, and for an object that lacks a field.
    """
    return _build_check(kind)(value)


@functools.cache
def _build_check(kind: Any) -> Callable[[Any], Any]:
    """Returns what loads values of this type: a reader of a thousand records cannot look at the types each time."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Union:  # Optional
        return functools.partial(_load_optional, _build_check(arguments[0]))
    if origin is tuple:
        return functools.partial(_load_tuple, _build_check(arguments[0]))
    if origin is dict:
        return functools.partial(_load_dict, _build_check(arguments[1]))
    if isinstance(kind, type) and is_dataclass(kind):
        checks = {name: _build_check(hint) for name, hint in _read_hints(kind).items()}
        return functools.partial(_load_object, kind, checks)
    if kind in _SCALARS:
        return functools.partial(_load_scalar, _SCALARS[kind])
    if kind is Any:
        return _load_any
    raise NotImplementedError(f"{kind} is none of the types that JSON is checked for")


def _load_optional(check: Callable[[Any], Any], value: Any) -> Any:
    if value is None:
        return None
    return check(value)


def _load_tuple(check: Callable[[Any], Any], value: Any) -> Any:
    return tuple(map(check, _load_scalar((list,), value)))


def _load_dict(check: Callable[[Any], Any], value: Any) -> Any:
    return {key: check(each) for key, each in _load_scalar((dict,), value).items()}


def _load_object(kind: Any, checks: Mapping[str, Callable[[Any], Any]], value: Any) -> Any:
    known = _load_scalar((dict,), value).items()
    return kind(**{name: checks[name](each) for name, each in known if name in checks})


def _load_scalar(types: Collection[type], value: Any) -> Any:
    if type(value) not in types:
        raise TypeError(f"{value!r:.100} is of another type")
    return value


def _load_any(value: Any) -> Any:
    return value


@functools.cache
def _read_hints(kind: type) -> Dict[str, Any]:
    return get_type_hints(kind)
