"""Schemas of the parts of a podTemplate."""

from __future__ import annotations

from typing import Any

from railhead.api.model import NAMED_LIST
from railhead.api.quantities import QUANTITY

FREE = {"x-kubernetes-preserve-unknown-fields": True}
# Go programs write null for what is empty: creationTimestamp in each metadata, and containers. The API server takes it
# for an absent field of a built-in kind; of ours, server-side apply refuses it without this.
NULLABLE = {"nullable": True}


def text_field(description: str, limit: int, **more: Any) -> dict[str, Any]:
    """Returns the schema of a text of at most `limit` characters."""
    return {"type": "string", "description": description, "maxLength": limit, **more}


def list_field(description: str, items: dict[str, Any], limit: int, **more: Any) -> dict[str, Any]:
    """Returns the schema of a list of at most `limit` such items."""
    return {"type": "array", "description": description, "maxItems": limit, "items": items, **NULLABLE, **more}


def named_list(description: str, limit: int, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns the schema of a list of objects with a unique name each."""
    name = {"type": "string", "minLength": 1, "maxLength": 253, "description": "Its name."}
    items = {"type": "object", "required": ["name"], "properties": {"name": name, **properties}, **FREE, **more}
    return list_field(description, items, limit, **NAMED_LIST)


def amounts_field(description: str) -> dict[str, Any]:
    """Returns the schema of a map from names to quantities."""
    amount = {"x-kubernetes-int-or-string": True, "maxLength": 32, "pattern": QUANTITY}
    return {
        "type": "object",
        "description": description,
        "maxProperties": 16,
        "additionalProperties": amount,
        **NULLABLE,
    }
