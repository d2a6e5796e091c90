"""What a Workload's admission gives the pods of each role, by its flavors and its admission checks.

A check only adds (Kueue's pkg/podset/podset.go, Merge): a key that has another value already is a conflict, and the job
does not start without what the check has asked for. Nor does it start with less than all of it.

Topology Aware Scheduling chooses nodes without a look at affinity between pods: no node would suit a pod that must be
near others, or far from them, where Kueue has put it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from railhead.api.queue import (
    MAX_ANNOTATION,
    MAX_FLAVORS,
    MAX_LABELS,
    MAX_TOLERATIONS,
    PodSetAdmission,
)
from railhead.json_object import Object, part
from railhead.planning.queue_view import Assignment, PodSetUpdate, QueueView, WorkloadView
from railhead.resources.placement import HOSTNAME, REQUIRED, get_items
from railhead.resources.queues.kueue import HEAD, POD_SET, WORKERS
from railhead.resources.queues.kueue_topology import REQUIRED_TOPOLOGY

_Item = TypeVar("_Item")


class CannotStart(Exception):
    """The pods cannot have what the admission gives them; the message says what it is, for the user."""


def check_start(view: QueueView, workload: WorkloadView, *, head: Object, worker: Object) -> None:
    """Raises CannotStart if pods that would be created like these cannot have what the admission gives them."""
    for name, pod in ((HEAD, head), (WORKERS, worker)):
        merge_pod_set(view, workload, name, count=1, pod=pod)
        _check_topology(read_assignment(workload, name), pod)


def _check_topology(found: Assignment, pod: Object) -> None:
    """Raises CannotStart if the pod's affinity to others may exclude the node that Kueue assigned."""
    if not found.has_topology:
        return
    domain = pod["metadata"]["annotations"].get(REQUIRED_TOPOLOGY)
    which = f"pods of pod set {found.pod_set}"
    for key in _list_required(pod, "podAffinity"):
        if key != domain:
            raise CannotStart(
                f"Kueue assigned nodes to the {which}, which have to share one {key} by spec.scheduling.topology or a "
                "podTemplate's podAffinity; Kueue sees neither. Let it keep them together: set annotation "
                f"{REQUIRED_TOPOLOGY}: {key} in spec.podTemplate"
            )
    node, pods = next(((node, pods) for node, pods in found.nodes.items() if pods > 1), ("", 0))
    if pods and HOSTNAME in _list_required(pod, "podAntiAffinity"):
        raise CannotStart(
            f"Kueue assigned {pods} {which} to node {node}, which have to be on different nodes by placementStrategy "
            "STRICT_SPREAD or a podTemplate's podAntiAffinity; Kueue sees neither. Use SPREAD, or let a pod fill a node"
        )


def _list_required(pod: Object, kind: str) -> list[str]:
    """Returns the topology keys of required terms; a podTemplate may hold anything there."""
    affinity = pod["spec"].get("affinity")
    rules = affinity.get(kind) if isinstance(affinity, Mapping) else None
    terms = get_items(rules.get(REQUIRED)) if isinstance(rules, Mapping) else []
    return [str(term.get("topologyKey")) for term in terms if isinstance(term, Mapping)]


def read_assignment(workload: WorkloadView, name: str) -> Assignment:
    return next((each for each in workload.assignments if each.pod_set == name), Assignment(name))


def merge_pod_set(
    view: QueueView, workload: WorkloadView, name: str, *, count: int, pod: Object | None = None
) -> PodSetAdmission:
    """Returns what the pods of this role get. Raises CannotStart, also for a key that `pod` has with another value."""
    found = read_assignment(workload, name)
    flavors = [view.flavors[each] for each in found.flavors]
    updates = [each for each in workload.updates if each.pod_set == name]
    metadata = pod["metadata"] if pod else {"labels": {}, "annotations": {}}
    # a podTemplate may hold anything
    if pod:
        own = part(pod["spec"], "nodeSelector")
    else:
        own = {}
    selector = {key: value for flavor in flavors for key, value in flavor.node_labels.items()}
    tolerations = [each for flavor in flavors for each in flavor.tolerations]
    tolerations += [each for update in updates for each in update.tolerations]
    # A flavor and a check may have the same toleration, and models are not hashable.
    once_each = {each.model_dump_json(): each for each in tolerations}.values()
    return PodSetAdmission(
        name=name,
        count=count,
        flavors=_bound(found.flavors, MAX_FLAVORS, f"ResourceFlavors for {name}"),
        labels=_merge("labels", {}, {**metadata["labels"], POD_SET: name}, [(each, each.labels) for each in updates]),
        annotations=_merge("annotations", {}, metadata["annotations"], [(each, each.annotations) for each in updates]),
        node_selector=_merge(
            "nodeSelector",
            selector,
            own,
            [(each, each.node_selector) for each in updates],
        ),
        topology_aware=found.has_topology,
        tolerations=_bound(once_each, MAX_TOLERATIONS, f"tolerations for {name}"),
    )


def _merge(
    what: str,
    given: Mapping[str, str],
    own: Mapping[str, str],
    added: Iterable[tuple[PodSetUpdate, Mapping[str, str]]],
) -> dict[str, str]:
    """Returns what is given and added; `own` is what the pod has anyway."""
    merged = dict(given)
    for update, values in added:
        for key, value in values.items():
            # Two admission checks may ask for the same value, and only a different one is a conflict.
            known = merged.get(key, own.get(key))
            if known is not None and known != value:
                message = f"Admission check {update.check} sets {what} {key}={value[:63]} for pods of pod set "
                message += f"{update.pod_set}, which have {key}={known[:63]} already; change the check or the job"
                raise CannotStart(message)
            if len(value) > MAX_ANNOTATION:
                raise CannotStart(
                    f"Admission check {update.check} sets {what} {key} to more than {MAX_ANNOTATION} bytes"
                )
            merged[key] = value
    return dict(_bound(list(merged.items()), MAX_LABELS, what))


def _bound(items: Iterable[_Item], most: int, what: str) -> list[_Item]:
    found = list(items)
    if len(found) > most:
        raise CannotStart(f"The admission has {len(found)} {what}, and the pods can have at most {most}")
    return found
