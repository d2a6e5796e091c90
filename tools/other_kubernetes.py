"""Kubernetes of other minor versions beside the usual etcd, for `pytest --kubernetes`.

Each is built with Go from its module in tools/go into the user's cache, as the local control plane is: of the older
version kube-apiserver alone, of the newer one all programs.
"""

from __future__ import annotations

from pathlib import Path

from tools.go_program import NotBuilt, resolve_program

from railhead.local import Echo
from railhead.local.control_plane.binaries import KUBE_PROGRAMS, GoModule, build_flags, resolve

OLDER, NEWER = "1.34.4", "1.37.2"
MODULES = {
    OLDER: GoModule("kube-apiserver", package="k8s.io/kubernetes/cmd/kube-apiserver", flags=build_flags(OLDER)),
    NEWER: GoModule("kube", flags=build_flags(NEWER), links=KUBE_PROGRAMS),
}


def resolve_kubernetes(minor: str, echo: Echo) -> Path:
    """A folder with etcd, kubectl and what is built of this minor version, and no other programs.

    Raises:
        NotBuilt: there is no such version, or it cannot be built; the message says what to do.
    """
    version = next((each for each in MODULES if each.startswith(f"{minor}.")), None)
    if version is None:
        pinned = ", ".join(each.rpartition(".")[0] for each in MODULES)
        raise NotBuilt(f"--kubernetes {minor}: tools/go pins only {pinned}")
    folder = resolve_program(MODULES[version], version, echo)
    for program in ("etcd", "kubectl"):
        link = folder / program
        if not link.exists():
            link.unlink(missing_ok=True)  # of a cache that is gone
            link.symlink_to(resolve(echo) / program)
    return folder
