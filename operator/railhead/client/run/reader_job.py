"""A Job whose pod mounts a run's claim read-only, for when no pod of the TrainJob runs: it sleeps, and exec reads.

It goes with the command, at the latest after ten minutes, and with the TrainJob. It runs the image of whoever wrote the
TrainJob, while somebody else reads: so a NetworkPolicy leaves it no connection at all. It needs none, since the kubelet
mounts the claim and runs what `exec` sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import PurePosixPath

from railhead.api import names
from railhead.api.ray_container import read_ray_container
from railhead.client.cluster.connection import Cluster, explaining
from railhead.client.cluster.job_snapshot import PodState, read_pod
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.code_map import read_demanded
from railhead.client.submit.rendering import render_job
from railhead.json_object import Object, part, parts, text
from railhead.kube.bodies import keep_all
from railhead.kube.client import Scope
from railhead.kube.errors import Conflict, Denied, KubeError
from railhead.kube.kinds import EVENT, JOB, NETWORK_POLICY, POD, PVC
from railhead.resources.base import build_owner
from railhead.resources.merge import merge
from railhead.together import run_together

CONTAINER = "reader"
LIFE_SECONDS = 600
START_SECONDS = 120
SHARED_MODES = {"ReadWriteMany", "ReadOnlyMany"}
IDENTITY = (
    *("runAsUser", "runAsGroup", "runAsNonRoot", "fsGroup", "fsGroupChangePolicy"),
    *("supplementalGroups", "seLinuxOptions", "seccompProfile"),
)  # of the head's securityContext: who may read the files
PLACE = ("nodeSelector", "tolerations", "imagePullSecrets", "runtimeClassName")  # where the head could run


def build_reader(job: Object, *, folder: str, image: str | None = None) -> Object:
    """Returns the Job.

    Args:
        folder: the run's, as the job's pods see it.
        image: has python3; the job's by default.

    Raises:
        ClientError: the folder is on no claim of the job's head.
    """
    metadata = job["metadata"]
    owner = build_owner(names.API_VERSION, names.KIND, metadata["name"], metadata["uid"])
    demanded = read_demanded(job)
    own = {"app.kubernetes.io/name": "railhead-reader", names.LABEL_READER: metadata["uid"]}
    labels = {**demanded.get("labels", {}), **own}
    template = {**demanded, "labels": labels}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "generateName": f"{metadata['name']}-{names.tag(metadata['uid'])}-reader-",
            **template,
            "ownerReferences": [owner],
        },
        "spec": {
            "activeDeadlineSeconds": LIFE_SECONDS,
            "ttlSecondsAfterFinished": 60,
            "backoffLimit": 0,
            "template": {"metadata": template, "spec": _build_pod(job, folder=folder, image=image)},
        },
    }


def build_policy(reader: Object) -> Object:
    """Returns the NetworkPolicy of a job's readers. It stays for the next one, and goes with the TrainJob."""
    metadata = reader["metadata"]
    [owner] = metadata["ownerReferences"]
    return {
        "apiVersion": NETWORK_POLICY.api_version,
        "kind": NETWORK_POLICY.kind,
        "metadata": {
            "name": names.reader_policy_name(owner["name"], owner["uid"]),
            "labels": metadata["labels"],
            "ownerReferences": [owner],
        },
        "spec": {
            "podSelector": {"matchLabels": {names.LABEL_READER: owner["uid"]}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": [],
        },
    }


def _build_pod(job: Object, *, folder: str, image: str | None) -> Object:
    head, mount, volume = _choose_storage(job, folder)
    spec = head["spec"]
    container = read_ray_container(spec)
    identity = {**part(spec, "securityContext"), **part(container, "securityContext")}
    reader: Object = {
        "name": CONTAINER,
        "image": image or container["image"],
        "command": ["python3", "-I", "-S", "-c", f"import time; time.sleep({LIFE_SECONDS})"],
        "resources": {key: {"cpu": "250m", "memory": "256Mi"} for key in ("requests", "limits")},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{**mount, "readOnly": True}],
    }
    return {
        **{key: spec[key] for key in PLACE if key in spec},
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # A container's first process ignores a SIGTERM that it does not handle, so a longer wait is for nothing.
        "terminationGracePeriodSeconds": 1,
        "securityContext": {key: identity[key] for key in IDENTITY if key in identity},
        "volumes": [volume],
        "containers": [reader],
    }


def _choose_storage(job: Object, folder: str) -> tuple[Object, Object, Object]:
    """Returns the head pod, its mount that has the folder, and that mount's volume, which is a claim."""
    role = {names.LABEL_ROLE: names.HEAD}
    head = next(each for each in render_job(job) if role.items() <= part(part(each, "metadata"), "labels").items())
    mounts = [
        mount
        for mount in parts(read_ray_container(head["spec"]), "volumeMounts")
        if PurePosixPath(folder).is_relative_to(text(mount, "mountPath"))
    ]
    mount = max(mounts, key=lambda each: len(text(each, "mountPath")), default={})
    volume = next((each for each in parts(head["spec"], "volumes") if each.get("name") == mount.get("name")), {})
    if not part(volume, "persistentVolumeClaim") or ".." in PurePosixPath(folder).parts:
        raise ClientError(
            f"no pod of {job['metadata']['name']} runs, and {folder} is on no claim that another pod could mount; "
            "pass a copy of the run's folder with --folder",
            ExitCode.NOT_FOUND,
        )
    return head, mount, volume


def pin(reader: Object, node: str) -> Object:
    """Returns the Job with a pod that runs on this node only, as soon as that has room."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return merge(reader, {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}})


async def _find_node(cluster: Cluster, claim: str) -> str:
    """Returns the node on which a pod has the claim mounted, "" if it has none or may be mounted on several."""
    with explaining(f"read the PersistentVolumeClaim {claim}"):
        found = await cluster.client.get(PVC, claim, namespace=cluster.namespace)
    if SHARED_MODES & set(part(found, "spec").get("accessModes") or []):
        return ""

    def read(pod: Object) -> str:
        volumes = parts(part(pod, "spec"), "volumes")
        claims = [text(part(each, "persistentVolumeClaim"), "claimName") for each in volumes]
        is_live = part(pod, "status").get("phase") in ("Pending", "Running")
        if is_live and claim in claims:
            return text(part(pod, "spec"), "nodeName")
        return ""

    with explaining(f"list pods in namespace {cluster.namespace}"):
        listed = await cluster.client.list_each(Scope(POD, cluster.namespace), read)
    return next(filter(None, listed.items), "")


async def _isolate(cluster: Cluster, reader: Object, say: Callable[[str], None]) -> None:
    """Creates the readers' NetworkPolicy. Whoever may not reads without, as all pods of the namespace run without."""
    try:
        # A Conflict means that an earlier command has left its policy, which serves this one.
        with suppress(Conflict):
            await cluster.client.create(NETWORK_POLICY, build_policy(reader), namespace=cluster.namespace)
    except Denied as error:
        say(f"the pod that reads the claim has no NetworkPolicy: {error.message}")


@asynccontextmanager
async def run_reader(cluster: Cluster, reader: Object, say: Callable[[str], None]) -> AsyncIterator[str]:
    """Creates the Job, yields the name of its pod when that runs, and deletes the Job.

    Raises:
        ClientError: the API server, a quota or a policy refuses it, or it does not start.
    """
    [volume] = reader["spec"]["template"]["spec"]["volumes"]
    node = await _find_node(cluster, text(part(volume, "persistentVolumeClaim"), "claimName"))
    reader = pin(reader, node) if node else reader
    with explaining("create a Job that reads the run's claim"):
        await _isolate(cluster, reader, say)
        created = await cluster.client.create(JOB, reader, namespace=cluster.namespace, is_strict=True)
    name = str(created["metadata"]["name"])
    uid = str(created["metadata"]["uid"])
    say(f"no pod of the job runs; the Job {name} reads its claim")
    try:
        yield await _wait_for_pod(cluster, name, uid, say)
    finally:
        # Its deadline removes it as well.
        with suppress(KubeError):
            await cluster.client.delete(JOB, name, namespace=cluster.namespace, uid=uid)


async def _wait_for_pod(cluster: Cluster, name: str, uid: str, say: Callable[[str], None]) -> str:
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    last = "its pod does not exist yet"

    def on_pod(_: PodState | None, new: PodState | None) -> None:
        nonlocal last
        if new is None or started.done():
            return
        waits = f"{new.reason} {new.message}".strip() or new.phase
        if new.is_running:
            started.set_result(new.name)
        elif new.phase in ("Failed", "Succeeded"):
            started.set_exception(ClientError(f"the pod of Job {name} has ended: {waits}"))
        elif waits != last:
            last = waits
            say(f"the pod of Job {name} waits: {waits}")

    def on_event(_: Object | None, new: Object | None) -> None:
        if new is not None and new.get("reason") == "FailedCreate" and not started.done():
            message = f"the pod of Job {name} is refused: {text(new, 'message')}"
            started.set_exception(ClientError(message, ExitCode.REFUSED))

    pods = Scope(POD, cluster.namespace, f"batch.kubernetes.io/controller-uid={uid}")
    events = Scope(EVENT, cluster.namespace, field_selector=f"involvedObject.uid={uid}")
    try:
        async with asyncio.timeout(START_SECONDS):
            await run_together(
                cluster.watch(pods, on_pod, read_pod), cluster.watch(events, on_event, keep_all), started
            )
    except TimeoutError:
        message = f"the pod of Job {name} does not start within {START_SECONDS} s: {last}"
        raise ClientError(message, ExitCode.TIMED_OUT) from None
    return started.result()
