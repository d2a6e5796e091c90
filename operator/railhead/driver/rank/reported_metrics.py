"""Makes the metrics of a report such that Ray Train can write them into its snapshot, or says which one it cannot.

Ray's controller writes rank 0's metrics with each checkpoint, as JSON by pydantic, and ends the run if it cannot. So
the numbers of numpy, torch and other libraries become Python's, without an import of any of them, and the rest is
refused where the user's code reports it. What pydantic writes by itself, such as dates, stays as it is.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from railhead.driver.ray.checkpoint_manager import find_write_error
from railhead.driver.storage.history_records import find_number

# Levels of lists and dicts; pydantic writes 254.
_DEEPEST = 200
_PLAIN = (bool, int, float, type(None))
_LISTS = ("tolist", "numpy")  # methods that return an array's elements, or numpy's array of them
_ADVICE = "report numbers, texts, and lists or dicts of them"


class NotWritable(Exception):
    """A value, or a part of it, cannot be written; the message says why."""


def convert(metrics: Mapping[Any, Any], is_written: bool) -> Mapping[Any, Any]:
    """Returns the metrics with Python's numbers; raises TypeError, with its name, for one that cannot be written.

    Metrics that are not `is_written` may be anything, and their arrays stay: only the user's callbacks read them.
    """
    if not isinstance(metrics, dict):
        return metrics
    if not is_written:
        return {name: _convert_number(value) for name, value in metrics.items()}
    return convert_written("ray.train.report", metrics)


def convert_written(who: str, metrics: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Returns metrics that can be written with a checkpoint; `who` begins the message. Raises TypeError."""
    result, problems = make_writable(metrics)
    if problems:
        raise TypeError(f"{who}: {problems[0]}; {_ADVICE}")
    return result


def make_writable(metrics: Mapping[Any, Any]) -> Tuple[Mapping[Any, Any], List[str]]:
    """Returns the metrics that can be written, and what is wrong with each of the others."""
    result = {}
    problems = []
    for name, value in metrics.items():
        try:
            result[_convert_number(name)] = _convert(value, 0)
        except NotWritable as error:
            problems.append(f"metric {name!r} cannot be written with a checkpoint: {error}")
    return result, problems


def _convert_number(value: Any) -> Any:
    number = find_number(value)
    if number is None:
        return value
    return number


def _convert(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEEPEST:
        raise NotWritable(f"it has more than {_DEEPEST} levels of lists and dicts")
    if kind is str:
        return _check_text(value)
    if isinstance(value, dict):
        return {_convert_number(name): _convert(each, depth + 1) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        converted = [_convert(each, depth + 1) for each in value]
        if isinstance(value, list):
            return converted
        return tuple(converted)
    number = find_number(value)
    if number is not None:
        return number
    elements = _list_elements(value)
    if elements is not None:
        return _convert(elements, depth + 1)
    problem = find_write_error(value)
    if problem:
        raise NotWritable(f"a {kind.__module__}.{kind.__qualname__} is neither a number nor a text ({problem})")
    return value


def _check_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotWritable(f"its text is not valid Unicode ({error})") from None
    return text


def _list_elements(value: Any) -> Optional[Any]:
    """Returns what an array of numpy, torch, jax, pandas or tensorflow has; None for anything else."""
    for name in _LISTS:
        method = getattr(value, name, None)
        if not callable(method):
            continue
        try:
            found = method()
        except Exception:  # of a class that means something else by it
            continue
        if type(found) is not type(value):
            return found
    return None
