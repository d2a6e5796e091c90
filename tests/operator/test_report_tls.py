"""An operator whose report endpoint has an externally issued certificate, as from cert-manager."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from railhead.pki import Pair, issue, make_ca
from tests.operator.conftest import LED
from tests.operator.running import RunningOperator

NOW = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def authority() -> Pair:
    return make_ca("somebody", now=NOW, days=2)


@pytest.fixture
def folder(tmp_path: Path, authority: Pair) -> Path:
    """As a Secret of cert-manager looks in a pod."""
    found = tmp_path / "tls"
    found.mkdir()
    pair = issue(authority, "railhead-report", now=NOW, days=1, names=["127.0.0.1"])
    (found / "tls.crt").write_text(pair.certificate)
    (found / "tls.key").write_text(pair.key)
    (found / "ca.crt").write_text(authority.certificate)
    return found


def test_the_endpoint_presents_the_certificate(
    operator: RunningOperator, folder: Path, authority: Pair, tmp_path: Path
) -> None:
    mine = RunningOperator(operator.kubeconfig, tmp_path, flags=[*LED, f"--report-tls={folder}"])
    try:
        mine.start()
        # A client that trusts the CA gets an answer: without a token it is rejected, not a TLS error.
        assert mine.post(b"{}", token=None, ca=authority.certificate) == 401
    finally:
        mine.stop()


def test_a_folder_without_a_ca_is_rejected_with_a_message(
    operator: RunningOperator, folder: Path, tmp_path: Path
) -> None:
    (folder / "ca.crt").write_text("")
    mine = RunningOperator(operator.kubeconfig, tmp_path, flags=[*LED, f"--report-tls={folder}"])
    mine.launch()
    try:
        assert mine.wait() == 1
    finally:
        mine.stop()
    assert "ca.crt is empty; mount a Secret with it (drivers need the CA)" in mine.log.read_text()
