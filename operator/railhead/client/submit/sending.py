"""Creates a job with its code: the job suspended, then the ConfigMap that it owns, then the job is resumed.

After an end between two steps the same `submit` continues, and deleting the job deletes the ConfigMap.
"""

from __future__ import annotations

from contextlib import suppress

from railhead.api import names
from railhead.client.cluster.connection import Cluster, explaining
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.code_map import CodeMap, build_release, has_same_content, hold
from railhead.json_object import Object, part, text
from railhead.kube.errors import Conflict, Gone
from railhead.kube.kinds import CONFIG_MAP
from railhead.resources.base import build_owner

NO_UID = "00000000-0000-0000-0000-000000000000"  # the job's before it exists


async def check_code(cluster: Cluster, job: str, code: CodeMap) -> None:
    """Lets the API server check the ConfigMap without storing it. Raises ClientError."""
    with explaining(f"create the ConfigMap {code.name}"):
        body = code.build(cluster.namespace, job, NO_UID)
        # `send_code` finds out whose it is.
        with suppress(Conflict):
            await cluster.client.create(CONFIG_MAP, body, namespace=cluster.namespace, is_dry_run=True)


async def create_with_code(cluster: Cluster, job: Object, code: CodeMap) -> None:
    """Creates the job and its code. Raises ClientError; the message says what is left and how to continue."""
    held = await cluster.create_job(hold(job, code))
    await send_code(cluster, job, held, code)


async def send_code(cluster: Cluster, job: Object, held: Object, code: CodeMap) -> None:
    """Completes a job that was created without its code; `held`: as it is stored. Raises ClientError."""
    name = str(held["metadata"]["name"])
    uid = str(held["metadata"]["uid"])
    try:
        await _create_config_map(cluster, code.build(cluster.namespace, name, uid))
        await cluster.change(name, build_release(job, uid))
    except ClientError as error:
        rest = f"{name} exists and stays suspended: run the same command again, or `railhead delete {name}`"
        raise ClientError(f"{error}\n{rest}", error.code) from None


async def keep_code(cluster: Cluster, job: Object) -> None:
    """Makes a retry an owner of the code of the finished job, with which it would be deleted. Raises ClientError."""
    name = text(part(part(part(job, "spec"), "source"), "configMap"), "name")
    found = await read_code_map(cluster, name) if name else {}
    owners = part(found, "metadata").get("ownerReferences") or []
    if not any(_read_owner(each)[0] == names.KIND for each in owners):
        # A ConfigMap that the user created stays anyway.
        return
    uid = str(job["metadata"]["uid"])
    owner = build_owner(names.API_VERSION, names.KIND, str(job["metadata"]["name"]), uid)
    kept = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": {**kept, "ownerReferences": [*owners, owner]}}
    with explaining(f"keep the ConfigMap {name} for {job['metadata']['name']}, which was created"):
        await cluster.client.patch(CONFIG_MAP, name, patch, namespace=cluster.namespace)


async def read_code_map(cluster: Cluster, name: str) -> Object:
    """Returns the ConfigMap, an empty object if there is none or it may not be read."""
    try:
        with explaining(f"read the ConfigMap {name}"):
            return await cluster.client.get(CONFIG_MAP, name, namespace=cluster.namespace)
    except ClientError as error:
        if error.code not in (ExitCode.NOT_FOUND, ExitCode.DENIED):
            raise
        return {}


async def _create_config_map(cluster: Cluster, body: Object) -> None:
    name = str(body["metadata"]["name"])
    space = cluster.namespace
    with explaining(f"create the ConfigMap {name}"):
        with suppress(Conflict):
            await cluster.client.create(CONFIG_MAP, body, namespace=space)
            return
        # Garbage collection may be faster.
        with suppress(Gone):
            found = await cluster.client.get(CONFIG_MAP, name, namespace=space)
            owners = [_read_owner(each) for each in part(found, "metadata").get("ownerReferences") or []]
            own = _read_owner(body["metadata"]["ownerReferences"][0])
            if own in owners and has_same_content(body, found):
                return
            if not owners or any(owner[:2] != own[:2] for owner in owners):
                remedy = "delete it, or choose another name for the job"
                raise ClientError(f"the ConfigMap {name} belongs to something else; {remedy}", ExitCode.REFUSED)
            # It is left of a deleted job of this name.
            await cluster.client.delete(CONFIG_MAP, name, namespace=space, uid=str(found["metadata"]["uid"]))
        await cluster.client.create(CONFIG_MAP, body, namespace=space)


def _read_owner(reference: Object) -> tuple[str, str, str]:
    return text(reference, "kind"), text(reference, "name"), text(reference, "uid")
