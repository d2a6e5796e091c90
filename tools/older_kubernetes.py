"""A kube-apiserver of an older minor version beside the usual etcd and kubectl, for `pytest --kubernetes`.

It is built with Go from the module in tools/go/kube-apiserver into the user's cache, as the
local control plane is.
"""

from __future__ import annotations

from pathlib import Path

from tools.go_program import NotBuilt, resolve_program

from railhead.local import Echo
from railhead.local.control_plane.binaries import GoModule, build_flags, resolve

VERSION = "1.34.4"


def resolve_kubernetes(version: str, echo: Echo) -> Path:
    """A folder with etcd, kubectl and the kube-apiserver of this minor version, and no other programs.

    Raises:
        NotBuilt: there is no such version, or it cannot be built; the message says what to do.
    """
    if not VERSION.startswith(f"{version}."):
        raise NotBuilt(f"--kubernetes {version}: only {VERSION.rpartition('.')[0]} is pinned in tools/go")
    package = "k8s.io/kubernetes/cmd/kube-apiserver"
    folder = resolve_program(GoModule("kube-apiserver", package=package, flags=build_flags(VERSION)), VERSION, echo)
    for program in ("etcd", "kubectl"):
        link = folder / program
        link.unlink(missing_ok=True)
        link.symlink_to(resolve(echo) / program)
    return folder
