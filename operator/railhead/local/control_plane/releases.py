"""Downloads the official release binaries, and checks each against its published checksum."""

from __future__ import annotations

import hashlib
import io
import platform
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

KUBERNETES_URL = "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/{program}"
ETCD_URL = "https://github.com/etcd-io/etcd/releases/download/v{version}"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TIMEOUT_SECONDS = 60


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return bytes(answer.read())


def _checked(data: bytes, checksum: str, url: str) -> bytes:
    if hashlib.sha256(data).hexdigest() != checksum:
        raise ValueError(f"the checksum of {url} does not match")
    return data


def download(target: Path, *, kubernetes: str, etcd: str, echo: Callable[[str], None]) -> None:
    """Downloads all programs for this machine.

    Raises:
        OSError: a file could not be downloaded.
        ValueError: a checksum does not match, or there is no release for this machine.
    """
    arch = ARCHITECTURES.get(platform.machine())
    if arch is None:
        raise ValueError(f"no release for {platform.machine()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as name:
        out = Path(name) / "out"
        out.mkdir()
        for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"):
            url = KUBERNETES_URL.format(version=kubernetes, arch=arch, program=program)
            echo(f"downloading {program} {kubernetes}")
            (out / program).write_bytes(_checked(_fetch(url), _fetch(url + ".sha256").decode().strip(), url))
        echo(f"downloading etcd {etcd}")
        (out / "etcd").write_bytes(_fetch_etcd(etcd, arch))
        for file in out.iterdir():
            file.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)


def _fetch_etcd(version: str, arch: str) -> bytes:
    base = ETCD_URL.format(version=version)
    archive = f"etcd-v{version}-linux-{arch}.tar.gz"
    lines = (line.split() for line in _fetch(f"{base}/SHA256SUMS").decode().splitlines())
    sums = {fields[1]: fields[0] for fields in lines if len(fields) == 2}
    data = _checked(_fetch(f"{base}/{archive}"), sums.get(archive, ""), f"{base}/{archive}")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        member = tar.extractfile(f"etcd-v{version}-linux-{arch}/etcd")
        if member is None:
            raise ValueError(f"{archive} has no etcd")
        return member.read()
