"""Checks what was installed with the operator: that the CRD is new enough, once at startup, and that the policy exists.

Reads the schema from the OpenAPI endpoint, which every authenticated user may read, so that it also works for an
operator with rights in a few namespaces only. A CRD is too old when it rejects anything that this operator's own CRD
accepts: status writes would be pruned or rejected in the middle of a job.

The operator creates pods for every job that the API server accepts. So without the ValidatingAdmissionPolicy, or
without its binding, jobs may use every service account, Secret and claim of their namespace, and nothing else would
tell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from railhead._version import __version__
from railhead.api import names
from railhead.api.served import PATH, find_narrower
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, Gone, KubeError
from railhead.kube.kinds import ADMISSION_POLICY, ADMISSION_POLICY_BINDING

log = logging.getLogger(__name__)
# A CRD that was just applied is served a moment later.
TRIES = 10
PAUSE_SECONDS = 1.0
WHAT_TO_DO = (
    f"Apply the CRD of {__version__}: `kubectl apply --server-side -f crds/`, or with Helm `helm upgrade` with "
    "crds.enabled=true. Existing jobs are not affected."
)


class WrongDefinition(Exception):
    """The operator must not run with this CRD; the text says what to do."""


async def check_definition(client: KubeClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Returns when the CRD is good, or when its schema cannot be read.

    Raises:
        WrongDefinition: it is missing, or older than this operator.
        KubeError: the API server does not answer.
    """
    problem = ""
    for number in range(TRIES):
        if number:
            await sleep(PAUSE_SECONDS)
        try:
            problem = find_problem(await client.get_object(PATH))
        except Gone:
            problem = f"The API server has no CRD {names.PLURAL}.{names.GROUP}."
        except Denied as error:
            log.warning("cannot check the CRD: no permission to read %s: %s", PATH, error)
            return
        if not problem:
            return
        log.info("%s Checking again in %.0f s", problem, PAUSE_SECONDS)
    raise WrongDefinition(f"{problem} {WHAT_TO_DO}")


def find_problem(document: Object) -> str:
    """Returns what is wrong with the schema in the group's OpenAPI document, as a sentence; empty when it is good.
    Pure."""
    narrower = find_narrower(document)
    crd = f"{names.PLURAL}.{names.GROUP}"
    if narrower:
        return f"The CRD {crd} is older than this operator needs ({narrower})."
    return ""


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
