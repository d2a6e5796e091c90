"""The endpoint's certificate: valid for its names, renewed in time, and always issued by the CA that drivers trust.

A mounted one is presented from its folder, and what is wrong with that is reported.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from railhead.controller.report.certificate import (
    CHECK_SECONDS,
    RENEW_DAYS,
    SECRET_NAME,
    BadFolder,
    Certificates,
    build_ssl_context,
    ensure_certificates,
    follow_certificates,
    needs_renewal,
    present,
    read_certificates,
)
from railhead.kube.errors import RetryAfter
from railhead.pki import Pair, issue, make_ca
from railhead.resources.base import CommonMetadata
from tests.model.client import ModelClient, make_client
from tests.model.faults import Fault

NAMES = ["railhead-report.railhead.svc", "localhost", "127.0.0.1"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


PLACE = ("secrets", "railhead", SECRET_NAME)


class EndOfTest(Exception):
    """The test has seen enough."""


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
    made = await ensure_certificates(make_client(), "railhead", NAMES)
    shake_hands(build_ssl_context(made), ca=made.ca.certificate, name=name)


async def test_the_secret_has_the_labels_and_annotations_that_the_cluster_demands() -> None:
    client = make_client()
    await ensure_certificates(client, "railhead", NAMES, CommonMetadata({"team": "ml"}, {"example.com/owner": "me"}))
    metadata = client.api.objects[PLACE]["metadata"]
    assert metadata["labels"].items() >= {"team": "ml", "app.kubernetes.io/name": "railhead"}.items()
    assert metadata["annotations"] == {"example.com/owner": "me"}


async def test_no_other_name_and_no_other_ca_is_accepted() -> None:
    made = await ensure_certificates(make_client(), "railhead", NAMES)
    context = build_ssl_context(made)
    with pytest.raises(ssl.SSLCertVerificationError, match="ostname"):
        shake_hands(context, ca=made.ca.certificate, name="other.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, ca=make_ca("railhead-report-ca", now=NOW, days=1).certificate, name=NAMES[0])


async def test_a_stored_certificate_is_used_and_not_written_again() -> None:
    client = make_client()
    first = await ensure_certificates(client, "railhead", NAMES)
    assert [r.verb for r in client.asked] == ["get", "create"]
    assert await ensure_certificates(client, "railhead", NAMES) == first
    assert [r.verb for r in client.asked] == ["get", "create", "get"]
    assert list(client.api.objects) == [PLACE]


async def test_two_operators_use_the_certificate_that_was_stored_first() -> None:
    other = make_client()
    theirs = await ensure_certificates(other, "railhead", NAMES)
    client = make_client()
    stored = other.api.objects[PLACE]
    client.taken = lambda request: request.verb == "get" and client.api.put(stored)  # just before our own create
    assert await ensure_certificates(client, "railhead", NAMES) == theirs
    assert client.names("create") == [SECRET_NAME]
    assert client.api.objects[PLACE]["data"] == stored["data"]


async def test_a_new_name_leads_to_a_new_certificate_of_the_same_ca() -> None:
    client = make_client()
    first = await ensure_certificates(client, "railhead", NAMES)
    second = await ensure_certificates(client, "railhead", ["reports.example", "10.0.0.7"])
    assert second.ca == first.ca
    assert second.server != first.server
    for name in ("reports.example", "10.0.0.7"):
        shake_hands(build_ssl_context(second), ca=first.ca.certificate, name=name)
    assert await ensure_certificates(client, "railhead", ["reports.example"]) == second


@pytest.mark.parametrize(("days", "is_near"), [(RENEW_DAYS - 1, True), (RENEW_DAYS + 1, False), (-1, True)])
def test_a_certificate_is_renewed_before_it_expires(days: int, is_near: bool) -> None:
    ca = make_ca("ca", now=NOW, days=3650)
    certificate = issue(ca, "server", now=NOW, days=365, names=NAMES).certificate
    assert needs_renewal(certificate, NAMES, now=NOW + timedelta(days=365 - days)) == is_near


def test_a_certificate_must_have_all_names() -> None:
    ca = make_ca("ca", now=NOW, days=3650)
    certificate = issue(ca, "server", now=NOW, days=365, names=NAMES).certificate
    assert not needs_renewal(certificate, NAMES[1:], now=NOW)
    assert needs_renewal(certificate, [*NAMES, "127.0.0.2"], now=NOW)


async def test_no_file_with_the_key_remains(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build_ssl_context(await ensure_certificates(make_client(), "railhead", NAMES))
    assert list(tmp_path.iterdir()) == []


async def test_a_running_operator_presents_a_certificate_that_another_renewed() -> None:
    """It checks daily; a day without a response does no harm."""
    client = make_client()
    first = await ensure_certificates(client, "railhead", NAMES)
    context = build_ssl_context(first)
    days: list[Fault | None] = [None, RetryAfter(0, "NoAnswer", "reset"), None]
    second = ["reports.example"]  # another replica, started with another name, has stored this

    async def pass_day(seconds: float) -> None:
        """What each daily check finds; the operator ends after the last one."""
        assert seconds == 24 * 3600
        if not days:
            raise EndOfTest
        client.faults.script["get", SECRET_NAME] = [days.pop(0)]
        if not days:
            await ensure_certificates(ModelClient(client.api), "railhead", [*NAMES, *second])

    presented: list[Pair] = []

    def show(pair: Pair) -> None:
        presented.append(pair)
        present(context, pair)

    with pytest.raises(EndOfTest):
        find = partial(ensure_certificates, client, "railhead", NAMES)
        await follow_certificates(find, first, show, pause=CHECK_SECONDS, sleep=pass_day)
    assert len(presented) == 1
    shake_hands(context, ca=first.ca.certificate, name="reports.example")


YESTERDAY = datetime.now(UTC) - timedelta(days=1)
AUTHORITY = make_ca("somebody", now=YESTERDAY, days=30)


def make_pair() -> Pair:
    return issue(AUTHORITY, "railhead-report", now=YESTERDAY, days=20, names=["localhost"])


def fill(folder: Path, pair: Pair, *, authority: Pair = AUTHORITY) -> None:
    texts = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    for name, text in texts.items():
        (folder / name).write_text(text)


def test_a_folder_with_a_certificate_is_read(tmp_path: Path) -> None:
    pair = make_pair()
    fill(tmp_path, pair)
    found = read_certificates(tmp_path)
    assert found.server == pair
    assert found.ca.certificate == AUTHORITY.certificate


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_the_error_names_a_missing_or_empty_file(tmp_path: Path, name: str) -> None:
    fill(tmp_path, make_pair())
    (tmp_path / name).write_text("\n")
    with pytest.raises(BadFolder, match=rf"--report-tls: .*{name} is empty"):
        read_certificates(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BadFolder, match=rf"--report-tls: .*{name} cannot be read .*mount a Secret with it"):
        read_certificates(tmp_path)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, Pair(make_pair().certificate, make_pair().key))
    with pytest.raises(BadFolder, match=r"tls\.crt and tls\.key in .* do not match"):
        read_certificates(tmp_path)


async def test_a_renewed_certificate_is_presented_once_and_a_bad_one_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_pair(), make_pair()
    fill(tmp_path, first)
    steps: Iterator[Callable[[], None]] = iter(
        [lambda: None, (tmp_path / "tls.key").unlink, lambda: fill(tmp_path, second), lambda: None]
    )

    async def sleep(seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise EndOfTest
        step()

    async def find() -> Certificates:
        return read_certificates(tmp_path)

    presented: list[Pair] = []
    with pytest.raises(EndOfTest):
        await follow_certificates(find, await find(), presented.append, pause=1.0, sleep=sleep)
    assert presented == [second]
    assert "keeps its certificate" in caplog.text


async def test_a_change_of_the_ca_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, make_pair())
    known = read_certificates(tmp_path)
    other = make_ca("somebody else", now=YESTERDAY, days=30)
    fill(tmp_path, issue(other, "railhead-report", now=YESTERDAY, days=20, names=["localhost"]), authority=other)
    calls = iter([None])

    async def sleep(seconds: float) -> None:
        if next(calls, EndOfTest) is EndOfTest:
            raise EndOfTest

    async def find() -> Certificates:
        return read_certificates(tmp_path)

    with pytest.raises(EndOfTest):
        await follow_certificates(find, known, lambda pair: None, pause=1.0, sleep=sleep)
    assert "running jobs trust the one they started with" in caplog.text
