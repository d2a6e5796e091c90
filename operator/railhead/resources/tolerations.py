"""How long a head pod stays on a node that does not respond.

By default Kubernetes waits 300 s, in which a whole group of GPUs does nothing. The fence in the run's storage
keeps a head that still lives from committing. Worker pods keep the default: a kubelet may be silent for a minute
while training runs on.
"""

from __future__ import annotations

from typing import Any

HEAD_SECONDS = 60
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def add_head_tolerations(given: list[Any]) -> list[Any]:
    """The template's tolerations, and those of the head for the taints that the template does not name."""
    own = (
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": HEAD_SECONDS}
        for key in KEYS
        if not any(_covers(toleration, key) for toleration in given)
    )
    return [*given, *own]


def _covers(toleration: Any, key: str) -> bool:
    """An empty key with operator Exists matches all taints; an empty effect all effects."""
    if not isinstance(toleration, dict) or toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    return toleration.get("key") == key or (not toleration.get("key") and toleration.get("operator") == "Exists")
