"""What all models of the resource share: frozen, camelCase, strict about unknown fields, bounded; and how raw objects
are read, of which any part may have an unexpected type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from railhead.api.schema import LINES
from railhead.contract.failure import FailureClass

# `train.py:main` would be the module `py` of a package `train`, which only an import in the pods would refuse.
NO_FILE = ("", "!self.contains('.py:')", "must name a module, not a file: write train:main for main of train.py")
NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
P = ParamSpec("P")
M = TypeVar("M", bound=BaseModel)


class Model(BaseModel):
    """A part of the spec. Unknown fields are errors, so that a typo is found at once."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=to_camel)


class StatusModel(BaseModel):
    """A part of the status. Unknown fields are dropped: a newer operator may have written them."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, alias_generator=to_camel)


# Of a list whose items have a unique name each.
NAMED_LIST: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def make_replace(_model: Callable[P, M]) -> Callable[Concatenate[M, P], M]:
    """Makes a function that copies a value of the model with other values of the named fields.

    mypy checks their names and types like those of the constructor's arguments, and nothing in the dictionary that
    `model_copy` takes.
    """

    def replace(value: M, /, *_: P.args, **changes: P.kwargs) -> M:
        return value.model_copy(update=changes)

    return replace


def checked(*checks: tuple[str, str, str]) -> ConfigDict:
    """Returns the configuration of a model with these CEL rules, as `rules` takes them."""
    return ConfigDict(json_schema_extra=rules(*checks))


def optional(description: str, **constraints: Any) -> Any:
    """Returns a field that may be absent, with constraints as pydantic's Field takes them."""
    return Field(default=None, description=description, **constraints)


def exactly_one(first: str, *others: str) -> tuple[str, str, str]:
    """Returns the rule that one of these fields is set, and no other."""
    *most, last = [first, *others]
    sets = [f"has(self.{name})" for name in (first, *others)]
    if len(sets) == 2:
        rule = " != ".join(sets)
    else:
        rule = f"[{', '.join(sets)}].exists_one(x, x)"
    return "", rule, f"exactly one of {', '.join(most)} and {last} must be set"


def time_limit(description: str, *, least: int = 1, default: int | None = None) -> Any:
    """Returns a field of seconds, at most a year; absent = its default, or no limit. `changes.ALWAYS` must have it."""
    text = f"{description} May be changed at any time."
    return Field(default=default, ge=least, le=31_536_000, description=text)


def text_field(description: str, limit: int = 1024, default: str | None = "") -> Any:
    """Returns a text of the status, of at most `limit` characters."""
    return Field(default=default, max_length=limit, description=description)


def message_field(description: str, limit: int) -> Any:
    """Returns a text of the status that may have several lines."""
    return Field(default="", max_length=limit, description=description, json_schema_extra={LINES: True})


def time_field(description: str, *, limit: int = 64) -> Any:
    """Returns a time of the status, in RFC 3339. The API server rejects any other text, even an empty one."""
    return Field(default=None, max_length=limit, description=description, json_schema_extra={"format": "date-time"})


def rules(*checks: tuple[str, str, str], **extra: Any) -> dict[str, Any]:
    """Returns CEL rules for `json_schema_extra`; each check is (path of the field at fault, rule, message).

    The path starts with a dot and is relative to the object that has the rules; empty means that
    object. The API server prefixes the message with the full path, so the message omits it.
    """
    validations = [
        {"rule": rule, "message": message, **({"fieldPath": path} if path else {})} for path, rule, message in checks
    ]
    return {"x-kubernetes-validations": validations, **extra}


def _read_class(value: object) -> object:
    if isinstance(value, str):
        return FailureClass.parse(value)
    return value


# A failure class of the status, parsed once; a name that another version wrote counts as Infrastructure.
ClassName = Annotated[
    FailureClass,
    BeforeValidator(_read_class),
    WithJsonSchema({"type": "string", "maxLength": 32}),
]
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME)]
Function = Annotated[
    str,
    Field(
        min_length=3,
        max_length=256,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        json_schema_extra=rules(NO_FILE),
    ),
]
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9._/:@]*[A-Za-z0-9])?$")]
FreeObject = dict[str, Any]


def free(description: str, *, max_properties: int = 64) -> Any:
    """Returns a free-form object: kept unchanged, validated by its consumer."""
    return Field(
        default=None,
        description=description,
        max_length=max_properties,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
