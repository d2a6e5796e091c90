"""The identities of a control plane: certificates, keys that only their owner can read, and kubeconfigs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import yaml
from cryptography import x509

from railhead.local.control_plane.servers import write_identities, write_kubeconfig


def test_each_certificate_has_its_subject(tmp_path: Path) -> None:
    write_identities(tmp_path, server="https://127.0.0.1:1")
    ca = x509.load_pem_x509_certificate((tmp_path / "pki" / "ca.crt").read_bytes())
    subjects = {}
    for name in ("admin", "kube-scheduler", "node", "apiserver"):
        certificate = x509.load_pem_x509_certificate((tmp_path / "pki" / f"{name}.crt").read_bytes())
        certificate.verify_directly_issued_by(ca)
        assert certificate.not_valid_after_utc > datetime.now(UTC)
        subjects[name] = certificate.subject.rfc4514_string()
    assert "system:masters" in subjects["admin"]
    assert "system:masters" not in subjects["node"]
    assert "CN=system:node:local" in subjects["node"]
    assert "CN=system:kube-scheduler" in subjects["kube-scheduler"]


def test_only_the_owner_can_read_keys(tmp_path: Path) -> None:
    write_identities(tmp_path, server="https://127.0.0.1:1")
    secrets = [*(tmp_path / "pki").glob("*.key"), *tmp_path.glob("*.kubeconfig")]
    assert secrets
    assert {path.stat().st_mode & 0o077 for path in secrets} == {0}


def test_kubeconfig_carries_a_token_or_a_certificate(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "t", server="https://s", pki=tmp_path, token="abc")
    write_kubeconfig(tmp_path / "c", server="https://s", pki=tmp_path, user="admin")
    token, certificate = (yaml.safe_load((tmp_path / n).read_text())["users"][0]["user"] for n in "tc")
    assert token == {"token": "abc"}
    assert certificate == {"client-certificate": str(tmp_path / "admin.crt"), "client-key": str(tmp_path / "admin.key")}
