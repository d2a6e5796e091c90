"""What Kueue's objects say, as the planner sees them. None of these functions raises: an error would end a watch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from railhead.api import names
from railhead.api.conditions import MAX_CONDITIONS, Condition
from railhead.api.parsed_spec import JobKey
from railhead.api.queue import Toleration
from railhead.contract.text import clean_text
from railhead.controller.observe import owner_uid
from railhead.json_object import Object, part, parts
from railhead.planning.queue_view import Assignment, Flavor, PodSetUpdate, WorkloadView
from railhead.resources.placement import HOSTNAME, get_items
from railhead.resources.queues.kueue import DIGEST, WORKERS

MAX_MESSAGE = 2048
Key = tuple[JobKey, str]  # the job and its uid


def observe_workload(raw: Object) -> tuple[Key, WorkloadView]:
    """Returns the facts of a Workload."""
    metadata, spec, status = (part(raw, key) for key in ("metadata", "spec", "status"))
    labels = part(metadata, "labels")
    annotations = part(metadata, "annotations")
    job = str(labels.get(names.LABEL_JOB_NAME))
    admission = part(status, "admission")
    job_uid = owner_uid(raw)
    if metadata.get("name") != names.workload_name(job, job_uid):
        # Anyone may create a Workload with a job's label: only that of the job's own name counts.
        job_uid = ""
    view = WorkloadView(
        name=str(metadata.get("name")),
        version=str(metadata.get("resourceVersion") or ""),
        job_uid=job_uid,
        is_deleting=bool(metadata.get("deletionTimestamp")),
        is_active=spec.get("active") is not False,
        digest=str(annotations.get(DIGEST) or ""),
        finalizers=tuple(str(each) for each in metadata.get("finalizers") or ()),
        queue=str(spec.get("queueName") or ""),
        cluster_queue=str(admission.get("clusterQueue") or ""),
        past_seconds=_read_number(status.get("accumulatedPastExecutionTimeSeconds")),
        asked_workers=_count_workers(parts(spec, "podSets")),
        reclaimed_workers=_count_workers(parts(status, "reclaimablePods")),
        assignments=tuple(_read_assignment(each) for each in parts(admission, "podSetAssignments")),
        updates=tuple(_read_updates(parts(status, "admissionChecks"))),
        conditions=tuple(_read_conditions(parts(status, "conditions"))),
    )
    return (JobKey(str(metadata.get("namespace")), job), job_uid), view


def _count_workers(pod_sets: list[Object]) -> int:
    counts = [each.get("count") for each in pod_sets if each.get("name") == WORKERS]
    if counts:
        return _read_number(counts[0])
    return 0


def _read_number(value: Any) -> int:
    if isinstance(value, int):
        return value
    return 0


def _read_assignment(raw: Object) -> Assignment:
    flavors = dict.fromkeys(str(each) for each in part(raw, "flavors").values())
    count = raw.get("count")
    name = str(raw.get("name"))
    topology = part(raw, "topologyAssignment")
    pods = count if isinstance(count, int) else None
    return Assignment(name, tuple(flavors), pods, bool(topology), _count_by_node(topology))


def _count_by_node(topology: Object) -> dict[str, int]:
    """Returns how many pods a TopologyAssignment gives each node: its slices abbreviate the names, and a value that is
    the same in all domains of a slice (pkg/util/tas/tas_assignment.go)."""
    if get_items(topology.get("levels"))[-1:] != [HOSTNAME]:
        return {}
    counts: dict[str, int] = {}
    for each in parts(topology, "slices"):
        values = parts(each, "valuesPerLevel")[-1:]
        pods = part(each, "podCounts")
        found = list(_list_names(values[0])) if values else []
        numbers = get_items(pods.get("individual")) or [pods.get("universal")] * len(found)
        counts |= {name: _read_number(number) for name, number in zip(found, numbers, strict=False)}
    return counts


def _list_names(values: Object) -> Iterable[str]:
    individual = part(values, "individual")
    if not individual:
        return [str(values.get("universal"))]
    prefix, suffix = (str(individual.get(key) or "") for key in ("prefix", "suffix"))
    return [f"{prefix}{root}{suffix}" for root in get_items(individual.get("roots"))]


def _read_updates(checks: list[Object]) -> Iterable[PodSetUpdate]:
    for check in checks:
        for each in parts(check, "podSetUpdates"):
            yield PodSetUpdate(
                str(check.get("name")),
                str(each.get("name")),
                _read_texts(part(each, "labels")),
                _read_texts(part(each, "annotations")),
                _read_texts(part(each, "nodeSelector")),
                tuple(_read_tolerations(parts(each, "tolerations"))),
            )


def _read_texts(raw: Object) -> dict[str, str]:
    return {str(key): str(value) for key, value in raw.items()}


def _read_conditions(found: list[Object]) -> Iterable[Condition]:
    for each in found[:MAX_CONDITIONS]:
        message = clean_text(str(each.get("message") or ""))[:MAX_MESSAGE]
        with contextlib.suppress(ValidationError):
            yield Condition.model_validate({**each, "message": message})


def observe_flavor(raw: Object) -> Flavor:
    """Returns the facts of a ResourceFlavor."""
    spec = part(raw, "spec")
    tolerations = tuple(_read_tolerations(parts(spec, "tolerations")))
    return Flavor(str(raw["metadata"].get("name")), _read_texts(part(spec, "nodeLabels")), tolerations)


def _read_tolerations(found: list[Object]) -> Iterable[Toleration]:
    for each in found:
        with contextlib.suppress(ValidationError):
            yield Toleration.model_validate(each)


def observe_priority(raw: Object) -> tuple[str, int]:
    """Returns the name and the value of a WorkloadPriorityClass."""
    return str(raw["metadata"].get("name")), _read_number(raw.get("value"))
