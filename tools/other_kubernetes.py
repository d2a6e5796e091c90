"""Kubernetes of other minor versions beside the usual etcd, for `pytest --kubernetes`.

Each is built with Go from its module in tools/go into the user's cache, as the local control plane is.
"""

from __future__ import annotations

from pathlib import Path

from tools.go_program import NotBuilt, resolve_program

from railhead.local import Echo
from railhead.local.control_plane.binaries import KUBE_PROGRAMS, GoModule, build_flags, resolve

VERSIONS = {"1.34": "1.34.4", "1.37": "1.37.2"}


def module_of(minor: str) -> GoModule:
    return GoModule(f"kube-{minor}", flags=build_flags(VERSIONS[minor]), links=KUBE_PROGRAMS)


def resolve_kubernetes(minor: str, echo: Echo) -> Path:
    """Returns a folder with etcd and the programs of this minor version.

    Raises:
        NotBuilt: there is no such version, or it cannot be built; the message says what to do.
    """
    if minor not in VERSIONS:
        raise NotBuilt(f"--kubernetes {minor}: tools/go pins only {', '.join(VERSIONS)}")
    folder = resolve_program(module_of(minor), VERSIONS[minor], echo)
    link = folder / "etcd"
    if not link.exists():
        link.unlink(missing_ok=True)  # of a cache that is gone
        link.symlink_to(resolve(echo) / "etcd")
    return folder
