"""Which children an attempt needs, as creates in the order in which they depend on each other."""

from __future__ import annotations

from collections.abc import Iterable

from railhead.planning.observed import Observed
from railhead.planning.plan import CopyConfigMap, Create
from railhead.planning.resume_from import find_initial_checkpoint
from railhead.resources.bundle import build_bundle_config_map
from railhead.resources.input import build_input
from railhead.resources.network_policy import build_network_policy
from railhead.resources.owner import JobRef
from railhead.resources.pod_head import build_head_pod
from railhead.resources.pod_worker import build_worker_pod
from railhead.resources.secret import build_secret
from railhead.resources.service import build_service
from railhead.resources.source import build_source_copy


def job_ref(observed: Observed) -> JobRef:
    return JobRef(namespace=observed.namespace, name=observed.name, uid=observed.uid)


def prerequisites(observed: Observed) -> tuple[Create | CopyConfigMap, ...]:
    """What every pod of the job refers to; made again before each attempt, idempotent by name."""
    job = job_ref(observed)
    assert observed.spec is not None
    return (
        Create("ConfigMap", build_bundle_config_map(observed.settings, namespace=job.namespace)),
        Create("Secret", build_secret(job)),
        Create("Service", build_service(job)),
        Create("ConfigMap", build_input(job, observed.spec, settings=observed.settings)),
        *_source_copy(observed),
        *_network_policy(observed),
    )


def _network_policy(observed: Observed) -> tuple[Create, ...]:
    if not observed.settings.has_network_policies:
        return ()
    return (Create("NetworkPolicy", build_network_policy(job_ref(observed))),)


def _source_copy(observed: Observed) -> tuple[CopyConfigMap, ...]:
    """A change of the user's ConfigMap must not change a running job, nor give two attempts different code."""
    source = observed.spec.source.config_map if observed.spec and observed.spec.source else None
    if source is None:
        return ()
    keys = tuple(item.key for item in source.items or [])
    return (CopyConfigMap(source.name, keys, build_source_copy(job_ref(observed)), field="spec.source.configMap"),)


def head_pod(observed: Observed, *, attempt: int, workers: int) -> Create:
    """`workers`: worker pods that there are to be."""
    assert observed.spec is not None
    body = build_head_pod(
        job_ref(observed),
        observed.spec,
        settings=observed.settings,
        attempt=attempt,
        status=observed.status.model_copy(update={"initial_checkpoint": find_initial_checkpoint(observed)}),
        worker_pods=workers,
    )
    return Create("Pod", body)


def worker_pods(observed: Observed, *, attempt: int, slots: Iterable[int], round_: int) -> tuple[Create, ...]:
    assert observed.spec is not None
    spec, job, settings = observed.spec, job_ref(observed), observed.settings
    return tuple(
        Create("Pod", build_worker_pod(job, spec, settings=settings, attempt=attempt, slot=slot, round_=round_))
        for slot in slots
    )
