"""The options that turn on Kubernetes' own gang scheduler: alpha in 1.36, beta from 1.37 on, off by default in both."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from railhead.local import LocalError

FIRST_BETA = (1, 37)


@dataclass(frozen=True)
class GangOptions:
    """What the servers of one version need.

    Attributes:
        api: the version of scheduling.k8s.io that has the PodGroup.
        gates: the feature gates. A server does not start with one that its version does not know.
    """

    api: str
    gates: tuple[str, ...]

    @property
    def clients(self) -> tuple[str, ...]:
        """Options of kube-controller-manager and kube-scheduler."""
        return (f"--feature-gates={','.join(f'{gate}=true' for gate in self.gates)}",)

    @property
    def api_server(self) -> tuple[str, ...]:
        return (*self.clients, f"--runtime-config=scheduling.k8s.io/{self.api}=true")


ALPHA = GangOptions("v1alpha2", ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"))
BETA = GangOptions("v1beta1", ("GenericWorkload", "TopologyAwareWorkloadScheduling"))


def find_gang_options(binaries: Path) -> GangOptions:
    """Returns those of the kube-apiserver in this folder. Raises LocalError."""
    command = [str(binaries / "kube-apiserver"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"v(\d+)\.(\d+)\.", said)
    if found is None:
        raise LocalError(f"{' '.join(command)} names no version: {said!r}")
    return BETA if (int(found[1]), int(found[2])) >= FIRST_BETA else ALPHA
