"""Events about pods, as a kubelet posts them: some of what keeps a pod from starting is said nowhere else."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from typing import Any

from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.kinds import EVENT

log = logging.getLogger(__name__)


async def warn_of_pod(client: KubeClient, pod: dict[str, Any], reason: str, message: str) -> None:
    """Once for each message; what the API server does not take is only logged."""
    metadata = pod["metadata"]
    about = {"kind": "Pod", "apiVersion": "v1", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
    digest = hashlib.sha256(f"{metadata['uid']}/{reason}/{message}".encode()).hexdigest()[:16]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": metadata["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message[:1024],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": "kubelet"},
    }
    try:
        await client.create(EVENT, event, namespace=metadata["namespace"])
    except Conflict:
        pass  # it was said
    except KubeError as error:
        log.warning("event %s of pod %s was not posted: %s", reason, metadata["name"], error)
