"""Frozen dataclasses from their own JSON, which `dataclasses.asdict` makes: the JSON has the fields' names.

Without pydantic, which not every user's image has.
"""

from __future__ import annotations

import functools
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Dict, Union, get_args, get_origin, get_type_hints


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


@functools.cache
def _read_hints(kind: type) -> Dict[str, Any]:
    return get_type_hints(kind)
