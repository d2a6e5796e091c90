"""The options that turn on Kubernetes' own gang scheduler: alpha in 1.36, beta from 1.37 on, off by default in both."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from railhead.local import LocalError

FIRST_BETA = (1, 37)
# The version of scheduling.k8s.io that has the PodGroup, and the feature gates. A server does not start with one that
# its version does not know.
ALPHA = ("v1alpha2", ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"))
BETA = ("v1beta1", ("GenericWorkload", "TopologyAwareWorkloadScheduling"))


@dataclass(frozen=True)
class GangOptions:
    """The options of the API server, and of its clients: kube-controller-manager and kube-scheduler."""

    api_server: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


def find_gang_options(binaries: Path) -> GangOptions:
    """Returns those of the kube-apiserver in this folder. Raises LocalError."""
    command = [str(binaries / "kube-apiserver"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"v(\d+)\.(\d+)\.", said)
    if found is None:
        raise LocalError(f"{' '.join(command)} names no version: {said!r}")
    api, gates = BETA if (int(found[1]), int(found[2])) >= FIRST_BETA else ALPHA
    clients = (f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}",)
    return GangOptions((*clients, f"--runtime-config=scheduling.k8s.io/{api}=true"), clients)
