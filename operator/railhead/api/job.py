"""The key of a TrainJob, and the parser of its spec from the API server's JSON, with its error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from railhead.api.names import MAX_JOB_NAME
from railhead.api.spec import TrainJobSpec


class InvalidSpec(ValueError):
    """A TrainJob whose spec is invalid.

    Attributes:
        field: the path of the field at fault, as the user wrote it (`spec.scaling.numWorkers`).
        message: what is wrong and what to do.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True)
class JobKey:
    """Identifies a job: the key of the work queue."""

    namespace: str
    name: str


def parse_spec(raw: Any, *, name: str = "") -> TrainJobSpec:
    """The spec of a stored TrainJob.

    Raises:
        InvalidSpec: the object was stored under another schema; names the field at fault.
    """
    if len(name) > MAX_JOB_NAME:
        raise InvalidSpec("metadata.name", f"longer than {MAX_JOB_NAME} characters; choose a shorter name")
    for path in _planned_in_use(TrainJobSpec, raw, "spec"):
        raise InvalidSpec(path, "not supported by this version of Railhead; remove the field")
    try:
        return TrainJobSpec.model_validate(raw)
    except ValidationError as error:
        raise _first_error(error) from None


def is_planned(model: type[BaseModel], field: str) -> bool:
    extra = model.model_fields[field].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("planned"))


def _first_error(error: ValidationError) -> InvalidSpec:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    return InvalidSpec(f"spec{path}", first["msg"].removeprefix("Value error, "))


def _planned_in_use(model: type[BaseModel], raw: Any, path: str) -> Iterator[str]:
    """Checked before the values: such a field must not be set at all."""
    if not isinstance(raw, dict):
        return
    for alias, is_planned_, parts in _list_fields(model):
        if raw.get(alias) is None:
            continue
        if is_planned_:
            yield f"{path}.{alias}"
        for part in parts:
            yield from _planned_in_use(part, raw[alias], f"{path}.{alias}")


@cache
def _list_fields(model: type[BaseModel]) -> list[tuple[str, bool, list[type[BaseModel]]]]:
    """Of each field that is planned or has parts: its name in JSON, whether it is planned, the models of its parts."""
    found = []
    for field, info in model.model_fields.items():
        parts = [p for p in (info.annotation, *get_args(info.annotation)) if isinstance(p, type)]
        models = [part for part in parts if issubclass(part, BaseModel)]
        if models or is_planned(model, field):
            found.append((info.alias or field, is_planned(model, field), models))
    return found
