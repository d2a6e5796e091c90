"""Warns if the ValidatingAdmissionPolicy that restricts jobs is gone.

The operator creates pods for every job that the API server accepts. So without the policy, or without its binding,
jobs may use every service account, Secret and claim of their namespace, and nothing else would tell.
"""

from __future__ import annotations

import logging

from railhead.kube.client import KubeClient
from railhead.kube.errors import Gone, KubeError
from railhead.kube.kinds import ADMISSION_POLICY, ADMISSION_POLICY_BINDING

log = logging.getLogger(__name__)


class AdmissionPolicy:
    """The policy that the chart installed, and its binding of the same name.

    Attributes:
        is_missing: whether one of the two did not exist when last looked for.
    """

    def __init__(self, client: KubeClient, name: str) -> None:
        """`name` is empty if the chart installed no policy."""
        self._client = client
        self._name = name
        self.is_missing = False

    async def look(self) -> None:
        """Looks for both objects, and warns while one is missing. Without an answer the last one stands."""
        if not self._name:
            return
        try:
            for kind in (ADMISSION_POLICY, ADMISSION_POLICY_BINDING):
                await self._client.get(kind, self._name)
        except Gone as error:
            self.is_missing = True
            log.warning(
                "%s: nothing restricts what jobs may use. Install the chart again, or start the operator without "
                "--admission-policy",
                error.message,
            )
        except KubeError as error:
            log.warning("cannot look for the ValidatingAdmissionPolicy %s: %s", self._name, error)
        else:
            if self.is_missing:
                log.info("the ValidatingAdmissionPolicy %s exists again", self._name)
            self.is_missing = False
