"""Events about pods, as a kubelet posts them: some reasons why a pod does not start appear nowhere else."""

from __future__ import annotations

import logging

from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.event import build_event
from railhead.kube.kinds import EVENT
from railhead.kube.types import Object

log = logging.getLogger(__name__)


async def warn_of_pod(client: KubeClient, pod: Object, reason: str, message: str) -> None:
    """Posts each message once; a failure is only logged."""
    metadata = pod["metadata"]
    about = {"kind": "Pod", "apiVersion": "v1", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
    event = build_event(about, type_="Warning", reason=reason, message=message, component="kubelet")
    try:
        await client.create(EVENT, event, namespace=metadata["namespace"])
    except Conflict:
        pass  # already posted
    except KubeError as error:
        log.warning("event %s of pod %s was not posted: %s", reason, metadata["name"], error)
