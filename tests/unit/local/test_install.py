"""What is installed into a local cluster: the same files as elsewhere, without those that run as a process."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from railhead.local.assets import MissingAsset, find_manifests
from railhead.local.control_plane.identities import write_identities, write_kubeconfig
from railhead.local.install import (
    Kubectl,
    KubectlFailed,
    build_node_role,
    load_manifests,
    select_installed,
    service_account_name,
)


def test_the_package_includes_the_manifests() -> None:
    kinds = {document["kind"] for document in load_manifests()}
    assert {"CustomResourceDefinition", "ClusterRole", "Deployment"} <= kinds


def test_reports_an_incomplete_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("railhead.__file__", str(tmp_path / "railhead" / "__init__.py"))
    with pytest.raises(MissingAsset, match=r"data/install.yaml is missing; reinstall Railhead"):
        find_manifests()


def test_installs_the_operators_role_but_not_its_deployment() -> None:
    documents = load_manifests()
    kinds = [d["kind"] for d in select_installed(documents)]
    assert kinds[0] == "Namespace"
    assert {"CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"} <= set(kinds)
    assert not {"Deployment", "Service"} & set(kinds)


def test_uses_the_service_account_of_the_manifests() -> None:
    documents = load_manifests()
    bound = next(d for d in documents if d["kind"] == "ClusterRoleBinding")["subjects"][0]["name"]
    assert service_account_name(documents) == bound


def test_the_nodes_role_covers_only_volumes() -> None:
    role, binding = build_node_role("local")
    assert {r for rule in role["rules"] for r in rule["resources"]} == {
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
    }
    assert binding["subjects"][0]["name"] == "system:node:local"


def test_quotes_kubectls_error(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'the field is bad' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(KubectlFailed, match="the field is bad"):
        Kubectl(program, tmp_path / "kubeconfig")("apply", "-f", "-")


def test_each_certificate_has_its_subject(tmp_path: Path) -> None:
    write_identities(tmp_path, server="https://127.0.0.1:1", node="local")
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
    write_identities(tmp_path, server="https://127.0.0.1:1", node="local")
    secrets = [*(tmp_path / "pki").glob("*.key"), *tmp_path.glob("*.kubeconfig")]
    assert secrets
    assert {path.stat().st_mode & 0o077 for path in secrets} == {0}


def test_kubeconfig_carries_a_token_or_a_certificate(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "t", server="https://s", pki=tmp_path, token="abc")
    write_kubeconfig(tmp_path / "c", server="https://s", pki=tmp_path, user="admin")
    token, certificate = (yaml.safe_load((tmp_path / n).read_text())["users"][0]["user"] for n in "tc")
    assert token == {"token": "abc"}
    assert certificate == {"client-certificate": str(tmp_path / "admin.crt"), "client-key": str(tmp_path / "admin.key")}
