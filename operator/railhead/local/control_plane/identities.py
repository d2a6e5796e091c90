"""The identities of a control plane: one CA, certificates for servers and clients, kubeconfigs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import yaml

from railhead.pki import Pair, issue, make_ca, make_signing_keys

DAYS = 365
SERVICE_ADDRESS = "10.96.0.1"
# file name -> (common name, organization); a component's identity decides what it may do
CLIENTS = {
    "admin": ("railhead-local-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
}
SERVER_NAMES = ("127.0.0.1", SERVICE_ADDRESS, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def write_identities(folder: Path, *, server: str, node: str) -> None:
    """Writes keys (readable by the owner only) into `folder/pki` and kubeconfigs into `folder`."""
    pki = folder / "pki"
    pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = datetime.now(UTC)
    ca = make_ca("railhead-local-ca", now=now, days=DAYS)
    _write(pki / "ca.crt", ca.certificate)
    private, public = make_signing_keys()
    _write(pki / "sa.key", private)
    _write(pki / "sa.pub", public)
    _write_pair(pki, "apiserver", issue(ca, "kube-apiserver", now=now, days=DAYS, names=SERVER_NAMES))
    who = {**CLIENTS, "node": (f"system:node:{node}", "system:nodes")}
    for name, (common_name, organization) in who.items():
        names = ("127.0.0.1", node) if name == "node" else ()
        pair = issue(ca, common_name, now=now, days=DAYS, names=names, organization=organization)
        _write_pair(pki, name, pair)
        write_kubeconfig(folder / f"{name}.kubeconfig", server=server, pki=pki, user=name)


def write_kubeconfig(path: Path, *, server: str, pki: Path, user: str = "", token: str = "") -> None:
    """An ordinary kubeconfig, with a client certificate or a token."""
    credentials = (
        {"token": token}
        if token
        else {"client-certificate": str(pki / f"{user}.crt"), "client-key": str(pki / f"{user}.key")}
    )
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "railhead", "cluster": {"server": server, "certificate-authority": str(pki / "ca.crt")}}],
        "users": [{"name": user or "token", "user": credentials}],
        "contexts": [{"name": "railhead", "context": {"cluster": "railhead", "user": user or "token"}}],
        "current-context": "railhead",
    }
    _write(path, yaml.safe_dump(config))


def _write_pair(pki: Path, name: str, pair: Pair) -> None:
    _write(pki / f"{name}.crt", pair.certificate)
    _write(pki / f"{name}.key", pair.key)


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
