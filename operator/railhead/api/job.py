"""The key of a TrainJob, and the parser of its spec from the API server's JSON, with its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from railhead.api.forms import put_into_words
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
    try:
        return TrainJobSpec.model_validate(raw)
    except ValidationError as error:
        raise _first_error(error) from None


def _first_error(error: ValidationError) -> InvalidSpec:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return InvalidSpec(f"spec{path}", "there is no such field")
    return InvalidSpec(f"spec{path}", put_into_words(first["msg"].removeprefix("Value error, ")))
