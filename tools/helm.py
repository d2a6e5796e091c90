"""A helm of the pinned version: `python tools/helm.py ARGUMENTS` runs it, and builds it first where it is not there.

It is built with Go from the module in tools/go/helm into the user's cache, as the local
control plane is. RAILHEAD_HELM names another one to use instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from railhead.local.control_plane.binaries import KUBERNETES_VERSION, Say, find_go, make_once, users_cache
from railhead.local.control_plane.build import GO_VERSION, GoModule, build_modules

HELM_VERSION = "3.22.0"
SOURCES = Path(__file__).resolve().parent / "go"


class NoHelm(RuntimeError):
    """There is no helm and none can be built; the text says why."""


def resolve_helm(say: Say) -> Path:
    """The program.

    Raises:
        NoHelm: with what to do.
    """
    named = os.environ.get("RAILHEAD_HELM")
    if named:
        if os.access(named, os.X_OK):
            return Path(named)
        raise NoHelm(f"RAILHEAD_HELM={named} is no program")
    folder = users_cache() / f"helm-{HELM_VERSION}"
    if not has_helm(folder):
        make_once(folder, is_made=has_helm, make=build_helm, say=say, what="helm")
    return folder / "helm"


def has_helm(folder: Path) -> bool:
    return os.access(folder / "helm", os.X_OK)


def build_helm(folder: Path, say: Say) -> None:
    """Raises NoHelm."""
    go = find_go()
    if go is None:
        wanted = ".".join(map(str, GO_VERSION))
        raise NoHelm(f"no Go {wanted} or newer to build helm with; install one, or name a helm by RAILHEAD_HELM")
    module = GoModule("helm", package="helm.sh/helm/v3/cmd/helm", flags=build_flags())
    try:
        build_modules(go, folder, sources=SOURCES, modules=[module], say=say)
    except subprocess.CalledProcessError as error:
        raise NoHelm(f"helm could not be built (exit code {error.returncode}); see {folder}.log") from None


def build_flags() -> str:
    """Helm is told its version, and for which Kubernetes it renders when it asks no cluster."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    package = "helm.sh/helm/v3"
    values = {f"{package}/internal/version.version": f"v{HELM_VERSION}"}
    for part in ("pkg/chartutil", "pkg/lint/rules"):
        values |= {f"{package}/{part}.k8sVersionMajor": major, f"{package}/{part}.k8sVersionMinor": minor}
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in values.items())


def main(arguments: list[str]) -> int:
    try:
        helm = resolve_helm(lambda text: print(text, file=sys.stderr, flush=True))
    except NoHelm as error:
        print(error, file=sys.stderr)
        return 1
    return subprocess.run([str(helm), *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
