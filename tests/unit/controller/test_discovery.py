"""What the API server serves: asked once for all jobs that begin an attempt within some seconds, and again later."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from railhead.controller.discovery import ANSWER_SECONDS, Discovery
from railhead.kube.client import KubeClient
from railhead.kube.clock import ServerClock
from railhead.kube.errors import Denied, Gone, KubeError, RetryAfter
from tests.unit.builders import NOW
from tests.unit.kube.no_transport import NoTransport

BETA, ALPHA = (f"/apis/scheduling.k8s.io/{version}" for version in ("v1beta1", "v1alpha2"))
WITH, WITHOUT = ({"resources": [{"name": name}, {"name": f"{name}/status"}]} for name in ("podgroups", "workloads"))
FORBIDDEN = Denied(403, "Forbidden", "")
SILENT = RetryAfter(503, "ServiceUnavailable", "")


class DiscoveryClient(KubeClient):
    """Serves these documents, and no others."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self.documents, self.asked, self.seconds = documents, 0, 0.0
        super().__init__(NoTransport(), clock=ServerClock(lambda: self.seconds, self.read_wall))

    def read_wall(self) -> datetime:
        return NOW

    async def get_object(self, path: str) -> dict[str, Any]:
        self.asked += 1
        found = self.documents.get(path, Gone(404, "NotFound", ""))
        if isinstance(found, KubeError):
            raise found
        return dict(found)


@pytest.mark.parametrize(
    ("documents", "serves"),
    [
        ({}, False),
        ({BETA: WITH}, True),
        ({ALPHA: WITH}, True),
        ({BETA: WITHOUT, ALPHA: WITH}, True),
        ({BETA: WITHOUT, ALPHA: WITHOUT}, False),
        ({"/apis/scheduling.k8s.io/v1alpha3": WITH, "/apis/scheduling.volcano.sh/v1beta1": WITH}, False),
        ({BETA: FORBIDDEN, ALPHA: FORBIDDEN}, False),
    ],
)
async def test_pod_groups_are_served_in_a_known_version(documents: dict[str, Any], serves: bool) -> None:
    assert await Discovery(DiscoveryClient(documents)).has_pod_groups() is serves


@pytest.mark.parametrize("before", [{}, {BETA: WITH}])
async def test_the_answer_serves_all_jobs_for_some_seconds_and_then_follows_the_api_server(before: Any) -> None:
    client = DiscoveryClient(before)
    discovery = Discovery(client)
    for _ in range(100):
        assert await discovery.has_pod_groups() is bool(before)
    assert client.asked <= 2
    client.documents = {} if before else {BETA: WITH}
    client.seconds = ANSWER_SECONDS
    assert await discovery.has_pod_groups() is not bool(before)


async def test_an_api_server_that_does_not_answer_is_no_answer() -> None:
    client = DiscoveryClient({BETA: SILENT})
    discovery = Discovery(client)
    with pytest.raises(RetryAfter):
        await discovery.has_pod_groups()
    client.documents = {BETA: WITH}
    assert await discovery.has_pod_groups()
