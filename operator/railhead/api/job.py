"""A TrainJob as one value, and the parser that makes it of the API server's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from railhead.api.errors import InvalidSpec
from railhead.api.names import MAX_JOB_NAME
from railhead.api.spec import TrainJobSpec


@dataclass(frozen=True)
class JobKey:
    """Which job: the key of the work queue."""

    namespace: str
    name: str


def parse_spec(raw: Any, *, name: str = "") -> TrainJobSpec:
    """The spec of a stored TrainJob.

    Raises:
        InvalidSpec: for an object stored under another schema, with the field at fault.
    """
    if len(name) > MAX_JOB_NAME:
        raise InvalidSpec("metadata.name", f"longer than {MAX_JOB_NAME} characters; choose a shorter name")
    try:
        spec = TrainJobSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidSpec(f"spec.{path}" if path else "spec", first["msg"]) from None
    for path in _planned_in_use(spec, "spec"):
        raise InvalidSpec(path, "not supported by this version of Railhead; remove the field")
    return spec


def is_planned(model: type[BaseModel], field: str) -> bool:
    extra = model.model_fields[field].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("planned"))


def _planned_in_use(value: BaseModel, path: str) -> Iterator[str]:
    for field, info in type(value).model_fields.items():
        item = getattr(value, field)
        here = f"{path}.{info.alias or field}"
        if is_planned(type(value), field):
            if item is not None:
                yield here
        elif isinstance(item, BaseModel):
            yield from _planned_in_use(item, here)
