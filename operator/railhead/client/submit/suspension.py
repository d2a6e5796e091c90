"""Suspends and resumes a job."""

from __future__ import annotations

from collections.abc import Callable

from railhead.api.status import parse_status
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.waiting import wait_for
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.code_map import is_held
from railhead.contract.callbacks import ignore
from railhead.json_object import Object


async def suspend(cluster: Cluster, name: str) -> Object:
    """Sets spec.suspend, and returns the job. Raises ClientError."""
    await _get_unfinished(cluster, name)
    return await cluster.change(name, {"spec": {"suspend": True}})


async def resume(
    cluster: Cluster,
    name: str,
    changes: Object,
    *,
    timeout: float | None = None,
    echo: Callable[[str], None] = ignore,
) -> bool:
    """Merges the changes into the spec and clears spec.suspend in one write. Returns whether it was set before.

    With changes it first waits until a suspension that has begun is complete.

    Raises:
        ClientError: the job has finished, or finishes meanwhile, or waits for its code, or the API server refuses the
            change.
    """
    job = await _get_unfinished(cluster, name)
    if is_held(job):
        message = f"{name} waits for its code; run the same `railhead submit` again, which continues"
        raise ClientError(message, ExitCode.REFUSED)
    if changes and (job.get("status") or {}).get("phase") == "Suspending":
        ending = await wait_for(cluster, name, "suspended", timeout=timeout, echo=echo)
        if not ending.is_reached:
            raise ClientError(ending.message)
    await cluster.change(name, {"spec": {**changes, "suspend": False}})
    return bool(job["spec"].get("suspend"))


async def _get_unfinished(cluster: Cluster, name: str) -> Object:
    """Returns the job. Raises ClientError if it has finished, because nothing suspends or resumes it then."""
    job = await cluster.get_job(name)
    status = parse_status(job.get("status"))
    if status.is_finished:
        # Only a job that has failed has something left to train.
        if status.phase == "Succeeded":
            message = f"{name} has finished with success, so there is nothing to suspend or resume"
        else:
            message = f"{name} has finished (phase {status.phase}); run `railhead retry {name}` to continue it"
        raise ClientError(message, ExitCode.REFUSED)
    return job
