"""Lists TrainJobs for kopf, in pages that are bounded by bytes.

kopf reads each page whole, however large, and would never ask for a smaller one. Everything else is kopf's: its session
and credentials, its retries and its errors.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import kopf
from kopf._cogs.clients import api
from kopf._cogs.structs.references import Resource

from railhead.json_object import Object, part, text
from railhead.kube.bodies import decode
from railhead.kube.pages import PAGE_SIZE, PageTooLarge, halve, read_page


async def fetch_pages(
    *, settings: kopf.OperatorSettings, resource: Resource, namespace: Any, logger: Any
) -> AsyncIterator[tuple[list[Object], str]]:
    """Yields the jobs of each page with the list's resourceVersion, in place of kopf's `fetch_objs`."""
    selectors = sorted(set(settings.watching.label_selectors.collect(resource)))
    size = settings.watching.chunk_size or PAGE_SIZE
    token = ""
    while True:
        params = {"limit": str(size)}
        if selectors:
            params["labelSelector"] = ",".join(selectors)
        if token:
            params["continue"] = token
        url = resource.get_url(namespace=namespace, params=params)
        response = await api.request(method="get", url=url, settings=settings, logger=logger)
        try:
            async with response:
                page = decode(await read_page(response, size=size))
        except PageTooLarge:
            size = halve(size)
            logging.getLogger(__name__).info("a page of TrainJobs is too large; the next one has %d", size)
            continue
        metadata = part(page, "metadata")
        yield _list_jobs(page), text(metadata, "resourceVersion")
        token = text(metadata, "continue")
        if not token:
            return
        # Freed here, or it would be in memory while the next page is read.
        del page


def _list_jobs(page: Object) -> list[Object]:
    """Returns the jobs of a page, each with the kind and version that only the list has."""
    jobs: list[Object] = page.get("items") or []
    for job in jobs:
        job.setdefault("kind", text(page, "kind").removesuffix("List"))
        job.setdefault("apiVersion", text(page, "apiVersion"))
    return jobs
