"""The body of a Kubernetes Event. Its name is derived from its content: a repeated Event is the same object."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from railhead.api.base import Object
from railhead.contract.text import now_text


def build_event(
    about: Mapping[str, str], *, type_: str, reason: str, message: str, component: str, identity: str | None = None
) -> Object:
    """An Event about the referenced object, from `component`; `identity` replaces the message in the name's hash."""
    digest = hashlib.sha256(f"{about['uid']}/{reason}/{message if identity is None else identity}".encode())
    now = now_text()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name']}.{digest.hexdigest()[:16]}", "namespace": about["namespace"]},
        "involvedObject": dict(about),
        "type": type_,
        "reason": reason,
        "message": message[:1024],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": component},
    }
