"""The operator's warning about an admission policy that is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from railhead.controller import watch_guard
from railhead.controller.installation import AdmissionPolicy
from railhead.controller.store import Store
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, Gone, KubeError, RetryAfter
from railhead.kube.kinds import ADMISSION_POLICY, ADMISSION_POLICY_BINDING, Kind
from tests.model.client import make_client
from tests.unit.kube.no_transport import NoTransport

NAME = "railhead-operator"


class Server(KubeClient):
    """Has the objects that `errors` does not name; `gets` are the requests so far."""

    def __init__(self, **errors: KubeError) -> None:
        super().__init__(NoTransport())
        self.errors = errors
        self.gets: list[tuple[Kind, str]] = []

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object:
        self.gets.append((kind, name))
        if kind.kind in self.errors:
            raise self.errors[kind.kind]
        return {}


def gone(kind: Kind) -> dict[str, Any]:
    return {kind.kind: Gone(404, "NotFound", f'{kind.plural}.{kind.group} "{NAME}" not found')}


async def test_a_policy_with_its_binding_is_not_missing() -> None:
    server = Server()
    policy = AdmissionPolicy(server, NAME)
    await policy.look()
    assert not policy.is_missing and server.gets == [(ADMISSION_POLICY, NAME), (ADMISSION_POLICY_BINDING, NAME)]


@pytest.mark.parametrize("kind", [ADMISSION_POLICY, ADMISSION_POLICY_BINDING])
async def test_a_policy_or_a_binding_that_is_gone_is_missing_and_logged(
    caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    server = Server(**gone(kind))
    policy = AdmissionPolicy(server, NAME)
    with caplog.at_level(logging.INFO):
        await policy.look()
        assert policy.is_missing
        server.errors.clear()
        await policy.look()
    assert not policy.is_missing
    first, second = caplog.messages
    assert first.startswith(f'{kind.plural}.{kind.group} "{NAME}" not found: nothing restricts what jobs may use')
    assert second == f"the ValidatingAdmissionPolicy {NAME} exists again"


@pytest.mark.parametrize("error", [Denied(403, "Forbidden", "no"), RetryAfter(0, "NoAnswer", "connection refused")])
async def test_without_an_answer_the_last_one_stands(error: KubeError) -> None:
    server = Server(**gone(ADMISSION_POLICY))
    policy = AdmissionPolicy(server, NAME)
    await policy.look()
    server.errors = {ADMISSION_POLICY.kind: error}
    await policy.look()
    assert policy.is_missing


async def test_without_a_policy_nothing_is_looked_for() -> None:
    server = Server()
    policy = AdmissionPolicy(server, "")
    await policy.look()
    assert not policy.is_missing and server.gets == []


async def test_each_sweep_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_guard, "SWEEP_SECONDS", 0.0)
    looks: asyncio.Queue[None] = asyncio.Queue()
    running = asyncio.create_task(
        watch_guard.run_sweep(make_client(), Store(), (), selector="", look_for_policy=lambda: looks.put(None))
    )
    second = asyncio.gather(looks.get(), looks.get())
    done, _ = await asyncio.wait([second], timeout=10)
    assert done, "it has looked twice"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
