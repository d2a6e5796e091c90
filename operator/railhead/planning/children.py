"""The children of a job: which there are to create, and which to delete; and their material: the checkpoint of
spec.resumeFrom, and the child that a pod of the attempt cannot mount.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from railhead.api import names
from railhead.api.status import InitialCheckpoint
from railhead.planning.facts.admission import build_request, choose_admission
from railhead.planning.facts.avoided_nodes import list_avoided
from railhead.planning.facts.reasons import FAILED_MOUNT
from railhead.planning.job import Job
from railhead.planning.observed import Remove
from railhead.planning.plan import (
    DRIVER,
    HEADS_SERVICE,
    INPUT,
    NETWORK_POLICY,
    POD,
    POD_GROUP,
    SECRET,
    WORKLOAD,
    CopyConfigMap,
    Create,
)
from railhead.resources.bundle import build_bundle_config_map
from railhead.resources.code_volume import build_source_copy
from railhead.resources.gangs.schedulers import SCHEDULERS, build_gang, build_pod_group
from railhead.resources.mounts import Mounts, build_secret
from railhead.resources.network import build_heads_service, build_network_policy
from railhead.resources.pod_builder import PodSettings, WorkerPodBuilder, build_head_pod
from railhead.resources.queues.kueue import build_workload


def prerequisites(job: Job, *, attempt: int) -> tuple[Create | CopyConfigMap, ...]:
    """The objects that every pod of the attempt refers to. They are created with every pod, idempotent by name:
    somebody may have deleted a child of a running job.

    Without those of an attempt that an operator of another version, or with another key, began: this one cannot make
    the same.
    """
    wanted = job.mounts_of(attempt)
    own = job.own_mounts
    build_driver = partial(build_bundle_config_map, job.settings, namespace=job.namespace)
    build_service = partial(build_heads_service, job.namespace, job.settings.common_metadata)
    return (
        Create(HEADS_SERVICE, names.HEADS_SERVICE, build_service),
        *((Create(DRIVER, own.driver, build_driver),) if wanted.driver == own.driver else ()),
        *((Create(INPUT, own.input, lambda: job.own_input),) if wanted.input == own.input else ()),
        *((_create_secret(job, own),) if (wanted.input, wanted.secret) == (own.input, own.secret) else ()),
        *_copy_source(job, wanted.source),
        *_create_network_policy(job),
        *_create_pod_group(job, attempt=attempt),
    )


def _create_secret(job: Job, own: Mounts) -> Create:
    build = partial(build_secret, job.ref, job.settings, input_name=own.input)
    # A partial would show the key.
    return Create(SECRET, own.secret, lambda: build(), owner=own.input)


def _copy_source(job: Job, name: str) -> tuple[CopyConfigMap, ...]:
    """A change to the user's ConfigMap must not affect a running job, nor give two attempts different code."""
    source = job.spec.source.config_map if job.spec.source else None
    if source is None:
        return ()
    keys = tuple(item.key for item in source.items or [])
    build = partial(build_source_copy, job.ref, name)
    return (CopyConfigMap(name, source.name, keys, build, field="spec.source.configMap"),)


def _create_network_policy(job: Job) -> tuple[Create, ...]:
    policy = job.settings.job_network_policy
    if policy is None:
        return ()
    build = partial(build_network_policy, job.ref, policy, has_metrics=job.spec.metrics is not None)
    return (Create(NETWORK_POLICY, names.network_policy_name(job.name, job.uid), build),)


def _create_pod_group(job: Job, *, attempt: int) -> tuple[Create, ...]:
    """The newest version that the API server serves."""
    scheduler = SCHEDULERS.get(job.gang_scheduler_of(attempt))
    if scheduler is None:
        return ()
    gang = build_gang(job.ref, job.spec, attempt=attempt, least_workers=job.least_workers)
    create = None
    # From the oldest to the newest, so that the newest holds the older ones as its fallbacks.
    for group in reversed(scheduler.pod_groups):
        build = partial(build_pod_group, job.ref, gang, group, attempt=attempt)
        create = Create(POD_GROUP, gang.name, build, older=create)
    if create:
        return (create,)
    return ()


def removals(job: Job) -> tuple[Remove, ...]:
    """Removes all children except the pods, and a NetworkPolicy also if an operator with other settings created it.

    The Secret goes with the input, which owns it.
    """
    mounts = job.mounts_of(job.attempt)
    configs = [mounts.input]
    if job.spec.source and job.spec.source.config_map:
        configs.append(mounts.source)
    policy = Remove("NetworkPolicy", names.network_policy_name(job.name, job.uid))
    return (*(Remove("ConfigMap", name) for name in configs), policy, *gang_removal(job))


def driver_removal(job: Job) -> tuple[Remove, ...]:
    """The driver of an earlier version of the operator, once this job, the last one with it, needs it no more.

    With a job selector it stays: jobs that another operator runs may need it.
    """
    driver = job.status.driver
    settings = job.settings
    # The bundle of this very version is what the next job of the namespace needs.
    if driver in ("", settings.bundle_name) or job.is_driver_shared or settings.job_selector:
        return ()
    return (Remove("ConfigMap", driver, is_shared=True),)


def input_removal(job: Job) -> tuple[Remove, ...]:
    """The input of the current attempt, if the next one has another."""
    name = job.status.input
    if name not in ("", job.own_mounts.input):
        return (Remove("ConfigMap", name),)
    return ()


def gang_removal(job: Job) -> tuple[Remove, ...]:
    """Removes the PodGroup of the current attempt, whichever version of it exists."""
    scheduler = SCHEDULERS.get(job.gang_scheduler_of(job.attempt))
    # Before the first attempt there is no group, whatever the spec names.
    if scheduler is None or job.attempt == 0:
        return ()
    name = names.gang_name(job.name, job.uid, job.attempt)
    return (Remove("PodGroup", name, api_versions=tuple(group.api_version for group in scheduler.pod_groups)),)


def create_workload(job: Job) -> Create:
    """The Workload by which the job asks Kueue for quota."""
    name = names.workload_name(job.name, job.uid)
    return Create(WORKLOAD, name, lambda: build_workload(job.ref, build_request(job)))


def head_pod(job: Job, *, attempt: int, workers: int) -> Create:
    """`workers`: the desired number of worker pods."""
    build = partial(
        build_head_pod,
        _describe_attempt(job, attempt),
        report_url=job.settings.report_url,
        status=job.status,
        initial_checkpoint=find_initial_checkpoint(job),
        worker_pods=workers,
    )
    return Create(POD, names.head_name(job.name, job.uid, attempt), build)


def worker_pods(job: Job, *, attempt: int, slots: Iterable[int], round_: int) -> tuple[Create, ...]:
    pods = WorkerPodBuilder(_describe_attempt(job, attempt))
    return tuple(Create(POD, pods.name(slot, round_), partial(pods.build, slot=slot, round_=round_)) for slot in slots)


def _describe_attempt(job: Job, number: int) -> PodSettings:
    # Pods of the current attempt keep the admission that it began with; the queue may have changed it since.
    if number == job.attempt:
        admission = job.status.admission
    else:
        admission = choose_admission(job)
    attempt = PodSettings(
        job.ref,
        job.spec,
        number,
        job.mounts_of(number),
        avoided_nodes=list_avoided(job),
        admission=admission,
        pod_user=job.pod_user,
    )
    scheduler = SCHEDULERS.get(job.gang_scheduler_of(number))
    if scheduler is None:
        return attempt
    gang = names.gang_name(job.name, job.uid, number)
    return replace(attempt, join_gang=lambda pod: scheduler.join(pod, gang))


def find_source_checkpoint(job: Job) -> str | None:
    """Returns the URI of spec.resumeFrom, from the spec or the other job's status; None while there is none."""
    wanted = job.spec.resume_from
    if wanted is None or wanted.train_job is None:
        if wanted:
            return wanted.checkpoint
        return None
    found = None
    if job.source:
        found = job.source.best_checkpoint if wanted.best else job.source.checkpoint
    if found:
        return found.uri
    return None


def find_initial_checkpoint(job: Job) -> InitialCheckpoint | None:
    """Returns it from the status, or before the first attempt from the spec; None without resumeFrom."""
    wanted = job.spec.resume_from
    # The status has the answer once an attempt has begun: the other job may be deleted, or have trained on.
    if wanted is None or job.attempt > 0:
        return job.status.initial_checkpoint
    uri = find_source_checkpoint(job)
    if uri:
        return InitialCheckpoint(uri=uri, train_job=wanted.train_job or "")
    return None


def find_missing_mount(job: Job) -> str | None:
    """The name of the attempt's driver, input or Secret, if the kubelet reports that it is missing."""
    # The kubelet's message is the only sign: the operator watches neither ConfigMaps nor Secrets.
    found = job.startup_problem
    if found is None or found[1].reason != FAILED_MOUNT:
        return None
    message = found[1].message
    mounts = job.mounts_of(job.attempt)
    # These names end in digests, so none of them is a part of another one or of a user's object.
    return next((name for name in (mounts.driver, mounts.input, mounts.secret) if name in message), None)
