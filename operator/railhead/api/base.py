"""What all models of the resource share: frozen, camelCase, no unknown fields, bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A part of the spec. Unknown fields are errors, so that a typing error is no surprise later."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, alias_generator=to_camel)


class StatusModel(BaseModel):
    """A part of the status. Unknown fields are dropped: a newer operator may have written them."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, alias_generator=to_camel)


def planned(description: str) -> Any:
    """A field whose behaviour is not there yet: known by name, absent from the CRD, refused by the parser."""
    return Field(default=None, description=description, json_schema_extra={"planned": True})


def time_limit(description: str, *, least: int = 1) -> Any:
    """Seconds, a year at most; none when absent. Stands in `crd.MUTABLE_FIELDS` too."""
    words = f"{description} May be changed at any time."
    return Field(default=None, ge=least, le=31_536_000, description=words)


def rules(*checks: tuple[str, str, str], **extra: Any) -> dict[str, Any]:
    """CEL rules for `json_schema_extra`; each check is (path of the field at fault, rule, message).

    The path starts with a dot and is relative to where the rules stand; empty means that very
    place. The API server puts the whole path before the message, so the message leaves it out.
    """
    validations = [
        {"rule": rule, "message": message, **({"fieldPath": path} if path else {})} for path, rule, message in checks
    ]
    return {"x-kubernetes-validations": validations, **extra}


NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME)]
Function = Annotated[
    str,
    Field(
        min_length=3,
        max_length=256,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
    ),
]
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9._/:@]*[A-Za-z0-9])?$")]
FreeObject = dict[str, Any]


def free(description: str, *, max_properties: int = 64) -> Any:
    """A free-form object: kept as it is, checked by whom it is meant for."""
    return Field(
        default=None,
        description=description,
        max_length=max_properties,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
