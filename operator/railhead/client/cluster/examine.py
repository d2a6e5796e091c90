"""Reads what `railhead doctor` judges. All it creates are SelfSubjectAccessReviews, which are not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import compress

from railhead.api import names
from railhead.api.served import PATH, find_narrower
from railhead.client.cluster import readiness
from railhead.client.cluster.connection import Cluster, explaining
from railhead.client.cluster.job_rows import UNSEEN, JobRow, read_row
from railhead.client.cluster.readiness import NOT_PERMITTED, Check
from railhead.json_object import part, text
from railhead.kube import kinds
from railhead.kube.client import Scope
from railhead.kube.errors import Gone, KubeError
from railhead.resources.gangs.schedulers import SCHEDULERS

OPERATOR = "app.kubernetes.io/name=railhead,app.kubernetes.io/component=operator"
LEASES = "app.kubernetes.io/name=railhead"
# What a cluster must have, and local mode has not.
LOCAL = {
    "NetworkPolicy": "Local mode isolates no pods: they are processes of your user.",
    "DNS": "Local mode needs no cluster DNS: Railhead's programs read a hosts file.",
}
# Group, resource and verb of each right that a command uses.
READS = (
    *((names.GROUP, names.PLURAL, verb) for verb in ("get", "list", "watch")),
    *(("", "pods", verb) for verb in ("get", "list", "watch")),
    ("", "pods/log", "get"),
    ("", "events", "list"),
)
WRITES = (*((names.GROUP, names.PLURAL, verb) for verb in ("create", "patch", "delete")), ("", "pods/exec", "create"))


async def examine(cluster: Cluster) -> list[Check]:
    """Returns all checks, in their order. Raises ClientError if the API server does not answer."""
    with explaining("reach the API server"):
        version = await cluster.client.get_object("/version")
    known = LOCAL if await _is_local(cluster) else {}
    probes = {subject: probe for subject, probe in PROBES.items() if subject not in known}
    checks = await asyncio.gather(*(_run(subject, probe, cluster) for subject, probe in probes.items()))
    local = [Check(subject, readiness.OK, message) for subject, message in known.items()]
    return [readiness.judge_kubernetes(version), *checks, *local]


async def _is_local(cluster: Cluster) -> bool:
    # Most users may not list nodes; that of local mode is an administrator.
    with suppress(KubeError):
        return any((await cluster.client.list_each(Scope(kinds.NODE), readiness.is_local)).items)
    return False


async def _run(subject: str, probe: Callable[[Cluster], Awaitable[Check]], cluster: Cluster) -> Check:
    try:
        return await probe(cluster)
    except KubeError as error:
        if error.status in (401, 403):
            remedy = "Ask an administrator to run `railhead doctor`, or for the right."
            return Check(subject, NOT_PERMITTED, f"{error.message}.", remedy)
        return Check(subject, readiness.ERROR, f"It could not be read: {error.message or error.reason}.", "Try again.")


async def _definition(cluster: Cluster) -> Check:
    try:
        document = await cluster.client.get_object(PATH)
    except Gone:
        message = f"The API server has no CRD {names.PLURAL}.{names.GROUP}."
        return Check("CRD", readiness.ERROR, message, "Install the chart (docs/operate/install.md).")
    version = ""
    # Most users may not read CRDs; the schema is what counts.
    with suppress(KubeError):
        crd = await cluster.client.get(kinds.CRD, f"{names.PLURAL}.{names.GROUP}")
        version = text(part(part(crd, "metadata"), "labels"), readiness.VERSION_LABEL)
    return readiness.judge_definition(find_narrower(document), version)


async def _operator(cluster: Cluster) -> Check:
    found = await cluster.client.list(Scope(kinds.DEPLOYMENT, label_selector=OPERATOR))
    jobs = [] if found else await _list_jobs(cluster)
    has_seen_jobs = any(job.phase != UNSEEN for job in jobs)
    is_local = not found and await _is_local(cluster)
    return readiness.judge_operator(found, has_seen_jobs=has_seen_jobs, is_local=is_local)


async def _leader(cluster: Cluster) -> Check:
    leases = await cluster.client.list(Scope(kinds.LEASE, label_selector=LEASES))
    return readiness.judge_leader(leases, cluster.client.clock.now())


async def _seen_jobs(cluster: Cluster) -> Check:
    return readiness.judge_jobs(await _list_jobs(cluster), cluster.client.clock.now(), cluster.place)


async def _list_jobs(cluster: Cluster) -> list[JobRow]:
    return (await cluster.client.list_each(Scope(kinds.TRAIN_JOB, cluster.scope), read_row)).items


async def _rights(cluster: Cluster) -> Check:
    async def is_denied(group: str, resource: str, verb: str) -> bool:
        plural, _, sub = resource.partition("/")
        asked = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": plural, "subresource": sub}
        body = {"spec": {"resourceAttributes": asked}}
        answer = await cluster.client.create(kinds.SELF_ACCESS_REVIEW, body)
        return part(answer, "status").get("allowed") is not True

    async def list_denied(rights: Sequence[tuple[str, str, str]]) -> list[str]:
        denied = await asyncio.gather(*(is_denied(*right) for right in rights))
        return [f"{verb} {resource}" for (_, resource, verb), no in zip(rights, denied, strict=True) if no]

    return readiness.judge_rights(await list_denied(READS), await list_denied(WRITES), cluster.namespace)


async def _storage(cluster: Cluster) -> Check:
    return readiness.judge_storage(await cluster.client.list(Scope(kinds.STORAGE_CLASS)))


async def _gpus(cluster: Cluster) -> Check:
    return readiness.judge_gpus((await cluster.client.list_each(Scope(kinds.NODE), readiness.read_gpus)).items)


async def _pod_security(cluster: Cluster) -> Check:
    try:
        namespace = await cluster.client.get(kinds.NAMESPACE, cluster.namespace)
    except Gone:
        message = f"There is no namespace {cluster.namespace}."
        remedy = "Create it, or choose another by -n."
        return Check("Pod Security", readiness.ERROR, message, remedy)
    return readiness.judge_pod_security(namespace)


async def _network(cluster: Cluster) -> Check:
    listed = await cluster.client.list_each(Scope(kinds.DAEMON_SET), lambda each: each, metadata_only=True)
    return readiness.judge_network(listed.items)


async def _dns(cluster: Cluster) -> Check:
    scope = Scope(kinds.ENDPOINT_SLICE, "kube-system", label_selector="kubernetes.io/service-name=kube-dns")
    return readiness.judge_dns(await cluster.client.list(scope))


async def _gangs(cluster: Cluster) -> Check:
    groups = {
        f"{name} ({group.api_version})": kinds.POD_GROUP.in_version(group.api_version)
        for name, scheduler in SCHEDULERS.items()
        for group in scheduler.pod_groups
    }
    asked = (*groups.values(), kinds.WORKLOAD)
    *answers, has_kueue = await asyncio.gather(*map(cluster.client.serves, asked))
    return readiness.judge_gangs(list(compress(groups, answers)), has_kueue=has_kueue)


async def _default_queue(cluster: Cluster) -> Check:
    """Skips the check where Kueue is not installed: the API server then knows no LocalQueues either."""
    exists = False
    if await cluster.client.serves(kinds.LOCAL_QUEUE):
        with suppress(Gone):
            await cluster.client.get(kinds.LOCAL_QUEUE, "default", namespace=cluster.namespace)
            exists = True
    return readiness.judge_default_queue(exists=exists, namespace=cluster.namespace)


PROBES: dict[str, Callable[[Cluster], Awaitable[Check]]] = {
    "CRD": _definition,
    "Operator": _operator,
    "Leader": _leader,
    "TrainJobs": _seen_jobs,
    "Rights": _rights,
    "Storage": _storage,
    "GPUs": _gpus,
    "Pod Security": _pod_security,
    "NetworkPolicy": _network,
    "DNS": _dns,
    "Gangs and queues": _gangs,
    readiness.DEFAULT_QUEUE: _default_queue,
}
