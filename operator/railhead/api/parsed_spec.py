"""The key of a TrainJob, and the parser of its spec from the API server's JSON, with its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from railhead.api.forms import put_into_words
from railhead.api.names import MAX_JOB_NAME
from railhead.api.spec import TrainJobSpec

# The API server stores a megabyte and more in the fields whose content it does not know. The operator keeps the spec of
# each job in memory, and every pod of a job carries most of it.
MAX_SPEC_BYTES = 128 << 10
TOO_LARGE = (
    "more than 128 KiB in total, where each object and each list counts as 64 bytes; put large values of "
    "trainer.trainLoopConfig, env, runtimeEnv and the podTemplates into a ConfigMap, a volume, a dataset or the image"
)
# Python needs more for an empty list than JSON, which has two characters.
CONTAINER_BYTES = 64
NUMBER_BYTES = 8


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
    """Returns the spec of a stored TrainJob.

    Raises:
        InvalidSpec: the object was stored under another schema, or is too large; names the field at fault.
    """
    if len(name) > MAX_JOB_NAME:
        raise InvalidSpec("metadata.name", f"longer than {MAX_JOB_NAME} characters; choose a shorter name")
    if is_too_large(raw):
        raise InvalidSpec("spec", TOO_LARGE)
    try:
        return TrainJobSpec.model_validate(raw)
    except ValidationError as error:
        raise _first_error(error) from None


def is_too_large(spec: Any) -> bool:
    """Returns whether the spec has more than MAX_SPEC_BYTES. Looks no further than that, however large or deep it
    is."""
    left = MAX_SPEC_BYTES
    todo = [spec]
    while todo and left >= 0:
        value = todo.pop()
        if isinstance(value, str):
            left -= len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, dict):
            todo += value.values()
            left -= CONTAINER_BYTES + sum(len(key) for key in value)
        elif isinstance(value, list):
            todo += value
            left -= CONTAINER_BYTES
        else:
            left -= NUMBER_BYTES
    return left < 0


def _first_error(error: ValidationError) -> InvalidSpec:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return InvalidSpec(f"spec{path}", "there is no such field")
    return InvalidSpec(f"spec{path}", put_into_words(first["msg"].removeprefix("Value error, ")))
