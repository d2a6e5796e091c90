"""The user's kubectl, which has the protocol of commands in pods."""

from __future__ import annotations

import shutil

from railhead.client.errors import ClientError


def build_exec(namespace: str, kubeconfig: str | None, context: str | None) -> tuple[str, ...]:
    """Returns the beginning of a command that runs in a pod. Raises ClientError if there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise ClientError("a command in a pod needs kubectl on the PATH; install it")
    return (
        *(kubectl, "exec", "-n", namespace),
        *(("--kubeconfig", kubeconfig) if kubeconfig else ()),
        *(("--context", context) if context else ()),
    )
