"""The children of a job as one list, used to create them, to delete them and to test the operator's RBAC rules.

A new kind is one row here, one in `kube/kinds.py` and its RBAC rules in the chart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from railhead.api import names
from railhead.planning.facts.initial_checkpoint import find_initial_checkpoint
from railhead.planning.job import Job
from railhead.planning.plan import ChildKind, CopyConfigMap, Create, Remove
from railhead.resources.bundle import build_bundle_config_map, is_bundle
from railhead.resources.input import build_input, is_input
from railhead.resources.network_policy import build_network_policy
from railhead.resources.pod_head import build_head_pod
from railhead.resources.pod_worker import WorkerPods
from railhead.resources.secret import build_secret
from railhead.resources.service import build_service, is_service
from railhead.resources.source import build_source_copy


@dataclass(frozen=True)
class Child:
    """A child that the pods of a job refer to.

    Attributes:
        name: the object's name, from the job's name and uid.
        create: the action that creates it, from the job and the name.
        is_wanted: whether a new attempt needs it.
        is_random: created again, it would not be the same.
        may_exist: whether to delete it with the job's children: an operator with other settings may have created it.
    """

    kind: ChildKind
    name: Callable[[str, str], str]
    create: Callable[[Job, str], Create | CopyConfigMap]
    is_wanted: Callable[[Job], bool] = lambda job: True
    may_exist: Callable[[Job], bool] = lambda job: True
    is_random: bool = False


def _create_service(job: Job, name: str) -> Create:
    return Create("Service", name, partial(build_service, job.ref), is_same=partial(is_service, job.ref))


def _create_input(job: Job, name: str) -> Create:
    build = partial(build_input, job.ref, job.spec, settings=job.settings)
    return Create("ConfigMap", name, build, is_same=partial(is_input, job.ref, job.spec))


def _copies_source(job: Job) -> bool:
    return job.spec.source is not None and job.spec.source.config_map is not None


def _copy_source(job: Job, name: str) -> CopyConfigMap:
    """A change to the user's ConfigMap must not affect a running job, nor give two attempts different code."""
    assert job.spec.source is not None and job.spec.source.config_map is not None
    source = job.spec.source.config_map
    keys = tuple(item.key for item in source.items or [])
    return CopyConfigMap(name, source.name, keys, lambda: build_source_copy(job.ref), field="spec.source.configMap")


CHILDREN = (
    Child(
        "Secret",
        names.secret_name,
        lambda job, name: Create("Secret", name, lambda: build_secret(job.ref)),
        is_random=True,
    ),
    Child("Service", names.service_name, _create_service),
    Child("ConfigMap", names.input_name, _create_input),
    Child("ConfigMap", names.source_name, _copy_source, is_wanted=_copies_source, may_exist=_copies_source),
    Child(
        "NetworkPolicy",
        names.network_policy_name,
        lambda job, name: Create("NetworkPolicy", name, lambda: build_network_policy(job.ref)),
        is_wanted=lambda job: job.settings.has_network_policies,
    ),
)


def prerequisites(job: Job, *, attempt: int) -> tuple[Create | CopyConfigMap, ...]:
    """The objects that every pod of the attempt refers to. They are created with every pod, idempotent by name:
    somebody may have deleted a child of a running job.

    Without a Secret whose random token the attempt's head already has: a new one would be another. The driver's bundle
    belongs to the namespace and outlives the job; only the operator of its version can create it.
    """
    has_started = attempt == job.attempt and job.was_head_up
    children = tuple(
        child.create(job, child.name(job.name, job.uid))
        for child in CHILDREN
        if child.is_wanted(job) and not (has_started and child.is_random)
    )
    if job.settings_of(attempt) != job.settings:
        return children
    build = partial(build_bundle_config_map, job.settings, namespace=job.namespace)
    is_same = partial(is_bundle, job.settings)
    return (Create("ConfigMap", job.settings.bundle_name, build, is_shared=True, is_same=is_same), *children)


def removals(job: Job) -> tuple[Remove, ...]:
    """All children except the pods."""
    return tuple(Remove(child.kind, child.name(job.name, job.uid)) for child in CHILDREN if child.may_exist(job))


def driver_removal(job: Job) -> tuple[Remove, ...]:
    """The driver of an earlier version of the operator, once this job, the last one with it, needs it no more.

    With a job selector it stays: jobs that another operator runs may need it.
    """
    driver, settings = job.status.driver, job.settings
    if driver in ("", settings.bundle_name) or job.is_driver_shared or settings.job_selector:
        return ()
    return (Remove("ConfigMap", driver),)


def head_pod(job: Job, *, attempt: int, workers: int) -> Create:
    """`workers`: the desired number of worker pods."""
    build = partial(
        build_head_pod,
        job.ref,
        job.spec,
        settings=job.settings_of(attempt),
        attempt=attempt,
        status=job.status,
        initial_checkpoint=find_initial_checkpoint(job),
        worker_pods=workers,
    )
    return Create("Pod", names.head_name(job.name, job.uid, attempt), build)


def worker_pods(job: Job, *, attempt: int, slots: Iterable[int], round_: int) -> tuple[Create, ...]:
    pods = WorkerPods(job.ref, job.spec, settings=job.settings_of(attempt), attempt=attempt)
    return tuple(
        Create("Pod", pods.name(slot, round_), partial(pods.build, slot=slot, round_=round_)) for slot in slots
    )
