"""A pod's access to the API server: its service account's token, as a kubeconfig.

On a cluster a client finds the token at a hard-coded path. There are no mounts here, so
KUBECONFIG names a file with the same credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from railhead.kube.types import Object
from railhead.local.control_plane.identities import write_kubeconfig

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def give_identity(container: Object, mounts: Mapping[str, str], *, folder: Path, server: str) -> dict[str, str]:
    """Writes the kubeconfig into the pod's folder; returns the variables for the container.

    Nothing if the container has no token of its service account, or sets its own KUBECONFIG.
    """
    own = mounts.get(MOUNT_PATH)
    if own is None or not server or any(item["name"] == "KUBECONFIG" for item in container.get("env") or []):
        return {}
    path = folder / "kubeconfig"
    write_kubeconfig(path, server=server, pki=Path(own), token=(Path(own) / "token").read_text())
    return {"KUBECONFIG": str(path)}
