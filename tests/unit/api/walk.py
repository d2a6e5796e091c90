"""Walks the models by the paths of their fields in the resource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation such as `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def all_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and all models in it."""
    yield model
    for info in model.model_fields.values():
        for inner in models_in(info.annotation):
            yield from all_models(inner)
