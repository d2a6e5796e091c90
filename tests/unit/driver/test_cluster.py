"""The driver's watch on Ray's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from railhead.driver import cluster
from railhead.driver.reporting.publisher import Publisher
from railhead.driver.reporting.spool import Spool
from tests.ray.pods import make_job
from tests.unit.driver.node.test_ray_node import POD


def test_keeps_counting_nodes_after_the_gcs_did_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"Alive": True, "Resources": {"CPU": 1.0}}
    answers: Iterator[list[dict[str, Any]]] = iter([[node], [], [node, node]])

    def answer() -> list[dict[str, Any]]:
        found = next(answers, [])
        if not found:
            raise ConnectionError("no answer")
        return found

    logged: list[str] = []
    monkeypatch.setattr("ray.nodes", answer)
    monkeypatch.setattr("ray.is_initialized", lambda: len(logged) < 2)
    monkeypatch.setattr(cluster, "time", SimpleNamespace(sleep=lambda seconds: None))
    cluster.watch_nodes(POD, make_job(), Mock(spec=Publisher), Mock(spec=Spool), logged.append, on_fatal=print)
    assert logged == ["1 of 2 worker pods have joined", "2 of 2 worker pods have joined"]
