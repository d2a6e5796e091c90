"""Commands in a job's pods, by the user's kubectl, which has the protocol for them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from railhead.api import names
from railhead.api.status import JobStatus, parse_status
from railhead.client.cluster.child_process import read_all, run_process
from railhead.client.cluster.connection import Cluster
from railhead.client.exit_codes import ClientError, ExitCode

OUTPUT_BYTES = 64 << 20
LOCAL_HOST = "127.0.0.1"  # of the pods in local mode, and of no others


def build_exec(cluster: Cluster) -> tuple[str, ...]:
    """Returns the beginning of a command that runs in a pod. Raises ClientError if there is no kubectl."""
    return _build(cluster, "exec", "a command in a pod")


def build_forward(cluster: Cluster) -> tuple[str, ...]:
    """Returns the beginning of a command that forwards a pod's port. Raises ClientError if there is no kubectl."""
    return _build(cluster, "port-forward", "the way to a port of a pod")


def _build(cluster: Cluster, verb: str, what: str) -> tuple[str, ...]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise ClientError(f"{what} needs kubectl on the PATH; install it")
    target = cluster.target
    return (
        *(kubectl, verb, "-n", cluster.namespace),
        *(("--kubeconfig", target.kubeconfig) if target.kubeconfig else ()),
        *(("--context", target.context) if target.context else ()),
    )


async def find_pods(cluster: Cluster, name: str, role: str) -> list[str]:
    """Returns the job's running pods of this role, of its newest attempt. Raises ClientError if there are none."""
    job = await cluster.get_job(name)
    running = [pod for pod in await cluster.list_pods(job["metadata"]["uid"]) if pod.is_running]
    newest = max((pod.attempt for pod in running), default=0)
    found = [pod for pod in running if (pod.attempt, pod.role) == (newest, role)]
    if not found:
        raise explain_no_pod(name, parse_status(job.get("status")), role)
    if found[0].host == LOCAL_HOST:
        raise ClientError("local mode runs no commands in pods: they are processes of this machine; ask those directly")
    return [pod.name for pod in found]


def explain_no_pod(name: str, status: JobStatus, role: str) -> ClientError:
    """Returns what it means that the job has no running pod of this role."""
    remedy = f"run `railhead why {name}`"
    if status.is_finished:
        remedy = f"`railhead logs {name}` has what it printed"
    message = f"{name} has no running {role} pod (phase {status.phase or 'none'}); {remedy}"
    return ClientError(message, ExitCode.NOT_FOUND)


async def ask_pod(base: Sequence[str], pod: str, question: Sequence[str]) -> str:
    """Returns what a command prints in the pod; `base` is that of `build_exec`. Raises ClientError if it fails."""
    command = [*base, pod, "-c", names.CONTAINER, "--", *question]
    async with run_process(command, f"pod {pod}") as output:
        return (await read_all(output, OUTPUT_BYTES, f"pod {pod}")).decode(errors="replace")
