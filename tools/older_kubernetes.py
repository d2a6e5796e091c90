"""A kube-apiserver of an older minor version beside the usual etcd and kubectl, for `pytest --kubernetes`.

It is built with Go from the module in tools/go/kube-apiserver into the user's cache, as the
local control plane is.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from railhead.local.control_plane.binaries import Say, find_go, make_once, resolve, users_cache
from railhead.local.control_plane.build import GO_VERSION, GoModule, build_modules

VERSION = "1.34.4"
PROGRAM = "kube-apiserver"
SOURCES = Path(__file__).resolve().parent / "go"


class NoKubernetes(RuntimeError):
    """There is no such version, or it cannot be built; the text says why."""


def resolve_kubernetes(version: str, say: Say) -> Path:
    """A folder with etcd, kubectl and the kube-apiserver of this minor version, which has no other programs.

    Raises:
        NoKubernetes: with what to do.
    """
    if not VERSION.startswith(f"{version}."):
        raise NoKubernetes(f"--kubernetes {version}: only {VERSION.rpartition('.')[0]} is pinned in tools/go")
    folder = users_cache() / f"{PROGRAM}-{VERSION}"
    if not has_programs(folder):
        make_once(folder, is_made=has_programs, make=build, say=say, what=f"{PROGRAM} {VERSION}")
    for program in ("etcd", "kubectl"):
        link = folder / program
        link.unlink(missing_ok=True)
        link.symlink_to(resolve(say) / program)
    return folder


def has_programs(folder: Path) -> bool:
    return os.access(folder / PROGRAM, os.X_OK)


def build(folder: Path, say: Say) -> None:
    """Raises NoKubernetes."""
    go = find_go()
    if go is None:
        wanted = ".".join(map(str, GO_VERSION))
        raise NoKubernetes(f"no Go {wanted} or newer to build {PROGRAM} {VERSION} with; install one")
    module = GoModule(PROGRAM, package="k8s.io/kubernetes/cmd/kube-apiserver", flags=build_flags())
    try:
        build_modules(go, folder, sources=SOURCES, modules=[module], say=say)
    except subprocess.CalledProcessError as error:
        raise NoKubernetes(f"{PROGRAM} could not be built (exit code {error.returncode}); see {folder}.log") from None


def build_flags() -> str:
    """It would say 0.0.0 without them, and switch off what is newer."""
    major, minor, _ = VERSION.split(".")
    package = "k8s.io/component-base/version"
    values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X {package}.{name}={value}" for name, value in values.items())
