"""The CRD as the API server serves it, by its OpenAPI document, which every authenticated user may read."""

from __future__ import annotations

from railhead.api import names
from railhead.api.crd import build_crd
from railhead.api.schema import list_narrowed
from railhead.json_object import Object

PATH = f"/openapi/v3/apis/{names.GROUP}/{names.VERSION}"
NAMED_AT_MOST = 3


def find_narrower(document: Object) -> str:
    """Returns where the served schema rejects what this version's CRD accepts, "" if nowhere."""
    served = _read_schema(document)
    own = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    narrower = [
        place
        for part in ("spec", "status")
        for place in list_narrowed(own["properties"][part], served.get("properties", {}).get(part, {}), part)
    ]
    more = ""
    if len(narrower) > NAMED_AT_MOST:
        more = f" and {len(narrower) - NAMED_AT_MOST} more"
    return "; ".join(narrower[:NAMED_AT_MOST]) + more


def _read_schema(document: Object) -> Object:
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for known in schema.get("x-kubernetes-group-version-kind") or []:
            if (known.get("group"), known.get("version"), known.get("kind")) == (
                names.GROUP,
                names.VERSION,
                names.KIND,
            ):
                return dict(schema)
    return {}
