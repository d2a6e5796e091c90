"""Is the API server's CRD as new as this operator needs? Asked once, at the start.

The schema is read as every authenticated user may read it, so that an operator with rights
in a few namespaces can ask as well. An older CRD is one that refuses what this operator's own
takes; its word would be cut or refused in the middle of a job's life.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

from railhead import __version__
from railhead.api import names
from railhead.api.compatibility import find_narrowed
from railhead.api.crd import build_crd
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, Gone
from railhead.kube.types import Object

log = logging.getLogger(__name__)
PATH = f"/openapi/v3/apis/{names.GROUP}/{names.VERSION}"
TRIES = 10  # a definition that was just applied is served a moment later
PAUSE_SECONDS = 1.0
NAMED_AT_MOST = 3
WHAT_TO_DO = (
    f"Apply the one of {__version__}: `kubectl apply --server-side -f crds/`, or with Helm `helm upgrade` with "
    "crds.enabled=true. Jobs that are there stay as they are."
)


class WrongDefinition(Exception):
    """The operator must not run with this CRD; the text says what to do."""


async def check_definition(client: KubeClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Returns when the CRD is good, or when nothing can be known of it.

    Raises:
        WrongDefinition: it is not there, or older than this operator.
        KubeError: no answer.
    """
    problem = ""
    for number in range(TRIES):
        if number:
            await sleep(PAUSE_SECONDS)
        try:
            problem = find_problem(json.loads(await client.raw_get(PATH)))
        except Gone:
            problem = f"The API server has no CRD {names.PLURAL}.{names.GROUP}."
        except Denied as error:
            log.warning("the CRD's version is not known, for %s may not be read: %s", PATH, error)
            return
        if not problem:
            return
        log.info("%s Looking again in %.0f s", problem, PAUSE_SECONDS)
    raise WrongDefinition(f"{problem} {WHAT_TO_DO}")


def find_problem(document: Object) -> str:
    """A sentence about the schema in an OpenAPI document of the group, or nothing. Pure."""
    served = _find_schema(document)
    own = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    narrower = [
        place
        for part in ("spec", "status")
        for place in find_narrowed(own["properties"][part], served.get("properties", {}).get(part, {}), part)
    ]
    if not narrower:
        return ""
    more = f" and {len(narrower) - NAMED_AT_MOST} more" if len(narrower) > NAMED_AT_MOST else ""
    return (
        f"The CRD {names.PLURAL}.{names.GROUP} is older than this operator needs "
        f"({'; '.join(narrower[:NAMED_AT_MOST])}{more})."
    )


def _find_schema(document: Object) -> Object:
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for known in schema.get("x-kubernetes-group-version-kind") or []:
            if (known.get("group"), known.get("version"), known.get("kind")) == (
                names.GROUP,
                names.VERSION,
                names.KIND,
            ):
                return dict(schema)
    return {}
