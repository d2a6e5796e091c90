"""The endpoint's certificate: good for its names, renewed in time, and always of the CA that drivers trust."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from railhead.controller.report.certificate import (
    RENEW_DAYS,
    SECRET_NAME,
    ensure_certificates,
    needs_renewal,
    renew_certificates,
)
from railhead.controller.report.server import build_ssl_context, present
from railhead.kube.errors import Conflict, Gone, RetryAfter
from railhead.kube.kinds import Kind
from railhead.pki import Pair, issue, make_ca
from tests.unit.controller.fake_client import FakeClient

NAMES = ["railhead-report.railhead.svc", "localhost", "127.0.0.1"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class OverError(Exception):
    """The test has seen enough."""


class Secrets(FakeClient):
    """One place for one Secret. `rival` is what another operator stores just before us."""

    def __init__(self) -> None:
        super().__init__()
        self.secret: dict[str, Any] | None = None
        self.rival: dict[str, Any] | None = None
        self.verbs: list[str] = []

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        assert (kind.plural, name, namespace) == ("secrets", SECRET_NAME, "railhead")
        self.verbs.append("get")
        if self.secret is None:
            raise Gone(404, "NotFound", "not found")
        return self.secret

    async def create(self, kind: Kind, body: dict[str, Any], **where: Any) -> dict[str, Any]:
        assert (kind.plural, body["metadata"]["name"], where) == ("secrets", SECRET_NAME, {"namespace": "railhead"})
        self.verbs.append("create")
        self.secret = self.rival or self.secret
        if self.secret is not None:
            raise Conflict(409, "AlreadyExists", "exists")
        self.secret = body
        return body

    async def patch(self, kind: Kind, name: str, body: Any, *, type_: str, **where: Any) -> dict[str, Any]:
        assert (kind.plural, name, type_, where) == ("secrets", SECRET_NAME, "merge", {"namespace": "railhead"})
        self.verbs.append("patch")
        assert self.secret is not None
        self.secret = {**self.secret, **body}
        return self.secret


def shake_hands(server: ssl.SSLContext, *, ca: str, name: str) -> None:
    """A TLS handshake in memory. Raises ssl.SSLError as a driver would."""
    client = ssl.create_default_context(cadata=ca)
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(one, other, server_hostname=name),
        server.wrap_bio(other, one, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass


@pytest.mark.parametrize("name", NAMES)
async def test_a_driver_that_trusts_the_ca_connects_by_any_of_the_names(name: str) -> None:
    made = await ensure_certificates(Secrets(), "railhead", NAMES)
    shake_hands(build_ssl_context(made), ca=made.ca.certificate, name=name)


async def test_no_other_name_and_no_other_ca_is_good() -> None:
    made = await ensure_certificates(Secrets(), "railhead", NAMES)
    context = build_ssl_context(made)
    with pytest.raises(ssl.SSLCertVerificationError, match="ostname"):
        shake_hands(context, ca=made.ca.certificate, name="other.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, ca=make_ca("railhead-report-ca", now=NOW, days=1).certificate, name=NAMES[0])


async def test_what_is_stored_is_used_again_and_not_written() -> None:
    client = Secrets()
    first = await ensure_certificates(client, "railhead", NAMES)
    assert client.verbs == ["get", "create"]
    assert await ensure_certificates(client, "railhead", NAMES) == first
    assert client.verbs == ["get", "create", "get"]


async def test_two_operators_agree_on_the_one_that_was_stored_first() -> None:
    other = Secrets()
    theirs = await ensure_certificates(other, "railhead", NAMES)
    client = Secrets()
    client.rival = other.secret
    assert await ensure_certificates(client, "railhead", NAMES) == theirs
    assert client.secret == other.secret


async def test_a_new_name_means_a_new_certificate_of_the_same_ca() -> None:
    client = Secrets()
    first = await ensure_certificates(client, "railhead", NAMES)
    second = await ensure_certificates(client, "railhead", ["reports.example", "10.0.0.7"])
    assert second.ca == first.ca
    assert second.server != first.server
    for name in ("reports.example", "10.0.0.7"):
        shake_hands(build_ssl_context(second), ca=first.ca.certificate, name=name)
    assert await ensure_certificates(client, "railhead", ["reports.example"]) == second


@pytest.mark.parametrize(("days", "is_near"), [(RENEW_DAYS - 1, True), (RENEW_DAYS + 1, False), (-1, True)])
def test_it_is_renewed_before_its_time_is_over(days: int, is_near: bool) -> None:
    ca = make_ca("ca", now=NOW, days=3650)
    certificate = issue(ca, "server", now=NOW, days=365, names=NAMES).certificate
    assert needs_renewal(certificate, NAMES, now=NOW + timedelta(days=365 - days)) == is_near


def test_all_of_the_names_must_be_there() -> None:
    ca = make_ca("ca", now=NOW, days=3650)
    certificate = issue(ca, "server", now=NOW, days=365, names=NAMES).certificate
    assert not needs_renewal(certificate, NAMES[1:], now=NOW)
    assert needs_renewal(certificate, [*NAMES, "127.0.0.2"], now=NOW)


async def test_the_key_is_in_no_file_afterwards(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build_ssl_context(await ensure_certificates(Secrets(), "railhead", NAMES))
    assert list(tmp_path.iterdir()) == []


async def test_a_running_operator_presents_what_another_one_has_renewed() -> None:
    """Looked at each day; a day without an answer does no harm."""
    client = Secrets()
    first = await ensure_certificates(client, "railhead", NAMES)
    context = build_ssl_context(first)
    days = [None, RetryAfter(0, "NoAnswer", "reset"), None]
    second = ["reports.example"]  # another replica, started with another name, has stored this

    class Day(Secrets):
        """What each day's look meets; after the last one the operator ends."""

        async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any]:
            if not days:
                raise OverError
            if error := days.pop(0):
                raise error
            if len(days) == 0:
                await ensure_certificates(client, "railhead", [*NAMES, *second])
            return await client.get(kind, name, namespace=namespace)

    async def pass_day(seconds: float) -> None:
        assert seconds == 24 * 3600

    presented: list[Pair] = []

    def show(pair: Pair) -> None:
        presented.append(pair)
        present(context, pair)

    with pytest.raises(OverError):
        await renew_certificates(Day(), "railhead", NAMES, first, show, sleep=pass_day)
    assert len(presented) == 1
    shake_hands(context, ca=first.ca.certificate, name="reports.example")
