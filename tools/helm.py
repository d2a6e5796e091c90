"""Helm at the pinned version: `python -m tools.helm ARGUMENTS` runs it, and builds it if needed.

It is built with Go from the module in tools/go/helm into the user's cache, as the local
control plane is, since the tests of the chart need one version on every machine. RAILHEAD_HELM names another one to
use instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.go_program import NotBuilt, resolve_program

from railhead.local import Echo
from railhead.local.control_plane.binaries import KUBERNETES_VERSION, GoModule

HELM_VERSION = "3.22.0"


def resolve_helm(echo: Echo) -> Path:
    """The program.

    Raises:
        NotBuilt: there is none and none can be built; the message says what to do.
    """
    named = os.environ.get("RAILHEAD_HELM")
    if named:
        if os.access(named, os.X_OK):
            return Path(named)
        raise NotBuilt(f"RAILHEAD_HELM={named} is not an executable file")
    module = GoModule("helm", package="helm.sh/helm/v3/cmd/helm", flags=build_flags())
    return resolve_program(module, HELM_VERSION, echo, remedy="install one, or set RAILHEAD_HELM to a helm") / "helm"


def build_flags() -> str:
    """Sets Helm's version, and the version of Kubernetes that it renders for without a cluster."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    package = "helm.sh/helm/v3"
    values = {f"{package}/internal/version.version": f"v{HELM_VERSION}"}
    for part in ("pkg/chartutil", "pkg/lint/rules"):
        values |= {f"{package}/{part}.k8sVersionMajor": major, f"{package}/{part}.k8sVersionMinor": minor}
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in values.items())


def main(arguments: list[str]) -> int:
    try:
        helm = resolve_helm(lambda text: print(text, file=sys.stderr, flush=True))
    except NotBuilt as error:
        print(error, file=sys.stderr)
        return 1
    return subprocess.run([str(helm), *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
