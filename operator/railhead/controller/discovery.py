"""What the API server serves that an attempt's choice depends on, asked when an attempt may begin."""

from __future__ import annotations

import contextlib

from railhead.controller.expiring import Expiring
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied
from railhead.kube.kinds import POD_GROUP
from railhead.resources.gangs.in_tree import IN_TREE

# Attempts that begin within this time share the answer.
ANSWER_SECONDS = 10.0


class Discovery:
    """Asks the API server by its discovery documents, the same for all jobs."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._answers = Expiring[str, bool](ANSWER_SECONDS)  # by kind

    async def has_pod_groups(self) -> bool:
        """Returns whether the API server serves Kubernetes' own PodGroup in a version that Railhead knows; a refusal
        to tell counts as no. Raises KubeError without an answer."""
        now = self._client.clock.monotonic()
        found = self._answers.get(POD_GROUP.kind, now)
        if found is not None:
            return found
        found = False
        with contextlib.suppress(Denied):
            for each in IN_TREE.pod_groups:
                found = found or await self._client.serves(POD_GROUP.in_version(each.api_version))
        self._answers.put(POD_GROUP.kind, found, now)
        return found
