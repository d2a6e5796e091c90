"""The kinds of children that pods refer to: for each, a function that creates it, and one that removes it unless its
owner or another decision does."""

from __future__ import annotations

from functools import partial

from railhead.api import names
from railhead.planning.job import Job
from railhead.planning.observed import Remove
from railhead.planning.plan import (
    DRIVER,
    HEADS_SERVICE,
    INPUT,
    NETWORK_POLICY,
    POD_GROUP,
    SECRET,
    CopyConfigMap,
    Create,
)
from railhead.resources.bundle import build_bundle_config_map
from railhead.resources.code_volume import build_source_copy
from railhead.resources.gangs.schedulers import SCHEDULERS, build_gang, build_pod_group
from railhead.resources.mounts import build_secret
from railhead.resources.network import build_heads_service, build_network_policy


def create_heads_service(job: Job, _attempt: int) -> tuple[Create, ...]:
    """Creates the Service of all heads of the namespace."""
    build = partial(build_heads_service, job.namespace, job.settings.common_metadata)
    return (Create(HEADS_SERVICE, names.HEADS_SERVICE, build),)


def create_driver(job: Job, attempt: int) -> tuple[Create, ...]:
    own = job.own_mounts
    if job.mounts_of(attempt).driver != own.driver:
        return ()
    build = partial(build_bundle_config_map, job.settings, namespace=job.namespace)
    return (Create(DRIVER, own.driver, build),)


def create_input(job: Job, attempt: int) -> tuple[Create, ...]:
    own = job.own_mounts
    if job.mounts_of(attempt).input != own.input:
        return ()
    return (Create(INPUT, own.input, lambda: job.own_input),)


def remove_input(job: Job) -> tuple[Remove, ...]:
    return (Remove("ConfigMap", job.mounts_of(job.attempt).input),)


def create_secret(job: Job, attempt: int) -> tuple[Create, ...]:
    own = job.own_mounts
    wanted = job.mounts_of(attempt)
    if (wanted.input, wanted.secret) != (own.input, own.secret):
        return ()
    build = partial(build_secret, job.ref, job.settings, input_name=own.input)
    # A partial would show the key.
    return (Create(SECRET, own.secret, lambda: build(), owner=own.input),)


def copy_source(job: Job, attempt: int) -> tuple[CopyConfigMap, ...]:
    """Copies it: a change to the user's ConfigMap must neither affect a running job nor give two attempts different
    code."""
    source = job.spec.source.config_map if job.spec.source else None
    if source is None:
        return ()
    keys = tuple(item.key for item in source.items or [])
    name = job.mounts_of(attempt).source
    build = partial(build_source_copy, job.ref, name)
    return (CopyConfigMap(name, source.name, keys, build, field="spec.source.configMap"),)


def remove_source(job: Job) -> tuple[Remove, ...]:
    if job.spec.source is None or job.spec.source.config_map is None:
        return ()
    return (Remove("ConfigMap", job.mounts_of(job.attempt).source),)


def create_network_policy(job: Job, _attempt: int) -> tuple[Create, ...]:
    policy = job.settings.job_network_policy
    if policy is None:
        return ()
    build = partial(build_network_policy, job.ref, policy, has_metrics=job.spec.metrics is not None)
    return (Create(NETWORK_POLICY, names.network_policy_name(job.name, job.uid), build),)


def remove_network_policy(job: Job) -> tuple[Remove, ...]:
    # Always: an operator with other settings may have created it.
    return (Remove("NetworkPolicy", names.network_policy_name(job.name, job.uid)),)


def create_pod_group(job: Job, attempt: int) -> tuple[Create, ...]:
    """Creates it in the newest version that the API server serves."""
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


def remove_pod_group(job: Job) -> tuple[Remove, ...]:
    """Removes the PodGroup of the current attempt, whichever version of it exists."""
    scheduler = SCHEDULERS.get(job.gang_scheduler_of(job.attempt))
    # Before the first attempt there is no group, whatever the spec names.
    if scheduler is None or job.attempt == 0:
        return ()
    name = names.gang_name(job.name, job.uid, job.attempt)
    return (Remove("PodGroup", name, api_versions=tuple(group.api_version for group in scheduler.pod_groups)),)
