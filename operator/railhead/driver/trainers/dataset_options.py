"""`datasets.<name>.options` -> keyword arguments of Ray Data's reader, checked before anything is read.

The readers of parquet, csv and json pass unknown options to pyarrow, in tasks on the
workers, where a mistyped name would end the training; so this module checks the names.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any, Callable, Mapping

from railhead.driver.errors import JobRefused

# What pyarrow accepts beyond the reader's own parameters, as far as JSON can express it.
_PYARROW = {
    "parquet": (
        "batch_size",
        "batch_readahead",
        "fragment_readahead",
        "use_threads",
        "cache_metadata",
        "dataset_kwargs",
    ),
    "csv": ("read_options", "parse_options", "convert_options"),
    "json": ("read_options", "parse_options"),
}
# Options that are objects: the spec has their keyword arguments.
_CLASSES = {
    ("csv", "read_options"): "pyarrow.csv:ReadOptions",
    ("csv", "parse_options"): "pyarrow.csv:ParseOptions",
    ("csv", "convert_options"): "pyarrow.csv:ConvertOptions",
    ("json", "read_options"): "pyarrow.json:ReadOptions",
    ("json", "parse_options"): "pyarrow.json:ParseOptions",
    ("", "shuffle"): "ray.data:FileShuffleConfig",
    ("", "partitioning"): "ray.data.datasource:Partitioning",
}


def _refuse(dataset: str, text: str) -> JobRefused:
    return JobRefused("DatasetRefused", f"datasets.{dataset}.options.{text}")


def build_options(dataset: str, format: str, reader: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Raises JobRefused for a name that the reader does not know, or values that its class rejects."""
    known = find_names(format, reader)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"its options are {', '.join(known)}"
            raise _refuse(dataset, f"{name}: ray.data.{reader.__name__} has no such option; {hint}")
    return {name: _build_value(dataset, format, name, value) for name, value in given.items()}


def find_names(format: str, reader: Callable[..., Any]) -> list[str]:
    """All parameters but the first, which is the path, and without *args and **kwargs."""
    _, *rest = inspect.signature(reader).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    own = [p.name for p in rest if p.kind not in kinds]
    return own + [name for name in _PYARROW.get(format, ()) if name not in own]


def _build_value(dataset: str, format: str, name: str, value: Any) -> Any:
    reference = _CLASSES.get((format, name)) or _CLASSES.get(("", name))
    if reference is None or not isinstance(value, dict):
        return value
    module, _, kind = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), kind)(**value)
    except Exception as error:
        raise _refuse(dataset, f"{name}: {module}.{kind} rejects it: {error}") from error


def check_cpus(dataset: str, given: Mapping[str, Any], *, free: float) -> None:
    """Ray would wait forever to place a read task that is larger than what any pod has left."""
    requested = given.get("num_cpus")
    if isinstance(requested, (int, float)) and requested > free:
        raise _refuse(
            dataset,
            f"num_cpus: a read task requests {requested:g} CPUs, but a worker pod has {free:g} left besides its "
            "workers; request less or raise spec.worker.extraResources.cpu",
        )
