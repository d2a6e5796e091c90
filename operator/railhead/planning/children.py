"""The children of a job: the table that creates and removes them, the pods and the Workload that decisions create, and
their material: the checkpoint of spec.resumeFrom, and the child that a pod of the attempt cannot mount.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from railhead.api import names
from railhead.api.status import InitialCheckpoint
from railhead.planning.child_kinds import (
    copy_source,
    create_driver,
    create_heads_service,
    create_input,
    create_network_policy,
    create_pod_group,
    create_secret,
    remove_input,
    remove_network_policy,
    remove_pod_group,
    remove_source,
)
from railhead.planning.facts.admission import build_request, choose_admission
from railhead.planning.facts.avoided_nodes import list_avoided
from railhead.planning.facts.reasons import FAILED_MOUNT
from railhead.planning.job import Job
from railhead.planning.observed import Remove
from railhead.planning.plan import (
    POD,
    WORKLOAD,
    CopyConfigMap,
    Create,
)
from railhead.resources.gangs.schedulers import SCHEDULERS
from railhead.resources.pod_builder import PodSettings, WorkerPodBuilder, build_head_pod
from railhead.resources.queues.kueue import build_workload


@dataclass(frozen=True)
class ChildRow:
    """How one kind of child comes and goes. Head pod, worker pods and Workload are no rows: decisions create those.

    Attributes:
        create: returns what the pods of this attempt need of it; nothing if the job has none.
        remove: returns what to delete of it at the end of the job; None = garbage collection or its owner removes it.
    """

    create: Callable[[Job, int], tuple[Create | CopyConfigMap, ...]]
    remove: Callable[[Job], tuple[Remove, ...]] | None = None


# The order is that of creation, within a step of their policies.
CHILDREN = (
    ChildRow(create_heads_service),  # shared by all jobs of the namespace
    ChildRow(create_driver),  # shared too: `driver_removal` finds out when the last job with it has ended
    ChildRow(create_input, remove_input),
    ChildRow(create_secret),  # the input owns it
    ChildRow(copy_source, remove_source),
    ChildRow(create_network_policy, remove_network_policy),
    ChildRow(create_pod_group, remove_pod_group),
)


def prerequisites(job: Job, *, attempt: int) -> tuple[Create | CopyConfigMap, ...]:
    """Returns the objects that every pod of the attempt refers to. They are created with every pod, idempotent by
    name: somebody may have deleted a child of a running job.

    Leaves out those of an attempt that an operator of another version, or with another key, began: this one cannot
    make the same.
    """
    return tuple(create for row in CHILDREN for create in row.create(job, attempt))


def removals(job: Job) -> tuple[Remove, ...]:
    """Removes all children except the pods."""
    return tuple(remove for row in CHILDREN if row.remove for remove in row.remove(job))


def driver_removal(job: Job) -> tuple[Remove, ...]:
    """Returns the driver of an earlier version of the operator, once this job, the last one with it, needs it no more.

    With a job selector it stays: jobs that another operator runs may need it.
    """
    driver = job.status.driver
    settings = job.settings
    # The bundle of this very version is what the next job of the namespace needs.
    if driver in ("", settings.bundle_name) or job.is_driver_shared or settings.job_selector:
        return ()
    return (Remove("ConfigMap", driver, is_shared=True),)


def input_removal(job: Job) -> tuple[Remove, ...]:
    """Returns the input of the current attempt, if the next one has another."""
    name = job.status.input
    if name not in ("", job.own_mounts.input):
        return (Remove("ConfigMap", name),)
    return ()


def create_workload(job: Job) -> Create:
    """Returns the Workload by which the job asks Kueue for quota."""
    name = names.workload_name(job.name, job.uid)
    return Create(WORKLOAD, name, lambda: build_workload(job.ref, build_request(job)))


def head_pod(job: Job, *, attempt: int, workers: int) -> Create:
    """Creates the head pod. `workers`: the desired number of worker pods."""
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
    """Returns the name of the attempt's driver, input or Secret, if the kubelet reports that it is missing."""
    # The kubelet's message is the only sign: the operator watches neither ConfigMaps nor Secrets.
    found = job.startup_problem
    if found is None or found[1].reason != FAILED_MOUNT:
        return None
    message = found[1].message
    mounts = job.mounts_of(job.attempt)
    # These names end in digests, so none of them is a part of another one or of a user's object.
    return next((name for name in (mounts.driver, mounts.input, mounts.secret) if name in message), None)
