"""The gang schedulers by their names in spec.scheduling.gangScheduler, and the gang of an attempt.

A new one is a file beside this one, a row here, its name in the API, and a rule in the operator's role.
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.api import names
from railhead.api.spec import TrainJobSpec
from railhead.json_object import Object
from railhead.resources.base import JobRef, build_metadata
from railhead.resources.gangs.coscheduling import COSCHEDULING
from railhead.resources.gangs.gang import Gang, GangScheduler, PodGroup
from railhead.resources.gangs.in_tree import IN_TREE
from railhead.resources.gangs.volcano import VOLCANO
from railhead.resources.templates import build_template

SCHEDULERS: Mapping[str, GangScheduler] = {"PodGroup": IN_TREE, "Coscheduling": COSCHEDULING, "Volcano": VOLCANO}


def build_gang(job: JobRef, spec: TrainJobSpec, *, attempt: int, least_workers: int) -> Gang:
    """Returns the gang of an attempt that can train with `least_workers` worker pods."""
    template = build_template(spec, names.WORKER)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    priority_class = (template.get("spec") or {}).get("priorityClassName") or spec.priority_class_name or ""
    name = names.gang_name(job.name, job.uid, attempt)
    domain = ""
    if spec.topology and spec.topology.policy == "Required":
        domain = spec.topology.key
    return Gang(name, 1 + least_workers, str(priority_class), annotations, domain)


def build_pod_group(job: JobRef, gang: Gang, group: PodGroup, *, attempt: int) -> Object:
    """Returns the gang's PodGroup in one version."""
    metadata = build_metadata(job, gang.name, **{names.LABEL_ATTEMPT: str(attempt)})
    return {
        "apiVersion": group.api_version,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": group.build_spec(gang),
    }
