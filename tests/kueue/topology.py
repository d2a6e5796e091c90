"""Topology Aware Scheduling: the node of each pod of an admitted Workload, and the gates that hold the pods until then.

The lowest level of each topology is the node. Nothing here is changed, but for what a function says that it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from railhead.api.quantities import parse_quantity
from tests.kueue.quota import DoesNotFit, count_requests
from tests.kueue.workload import Object, is_true

HOST = "kubernetes.io/hostname"
GATE = "kueue.x-k8s.io/topology"
POD_SET, WORKLOAD = "kueue.x-k8s.io/podset", "kueue.x-k8s.io/workload"  # a label and an annotation of pods
MARKS = tuple(f"kueue.x-k8s.io/podset-{kind}-topology" for kind in ("required", "preferred", "unconstrained"))
Free = dict[str, Counter[str]]  # of each node, by resource


@dataclass(frozen=True)
class Nodes:
    """The nodes of the cluster, and its Topologies by name."""

    nodes: Sequence[Object] = ()
    topologies: Mapping[str, Object] = field(default_factory=dict)


def place(
    pod_sets: Sequence[Object], workload: Object, flavors: Mapping[str, Object], world: Nodes, holders: Iterable[Object]
) -> list[Object]:
    """Returns the assignments of the pod sets with the nodes of those that have a flavor with a topology.

    pkg/cache/scheduler/tas_flavor_snapshot.go, FindTopologyAssignmentsForFlavor, but for the order of the domains:
    Kueue prefers the one that is just large enough. Raises DoesNotFit.
    """
    free = _find_free(world.nodes, holders)
    asked = {each["name"]: each for each in workload["spec"]["podSets"]}
    placed = {each["name"]: each for each in pod_sets}
    groups: dict[str, list[Object]] = {}
    for each in pod_sets:
        if _find_topology(each, flavors):
            request = asked[each["name"]].get("topologyRequest", {})
            groups.setdefault(request.get("podSetGroupName", each["name"]), []).append(each)
    for members in groups.values():
        spec = flavors[next(iter(members[0]["flavors"].values()))]["spec"]
        levels = [each["nodeLabel"] for each in world.topologies[spec["topologyName"]]["spec"]["levels"]]
        for domain in _list_domains(asked[members[0]["name"]].get("topologyRequest", {}), levels, spec, world.nodes):
            if (found := _fill(members, asked, domain, free)) is not None:
                break
        else:
            message = f'topology "{spec["topologyName"]}" doesn\'t allow to fit all pods of {members[0]["name"]}'
            raise DoesNotFit("TopologyPlacementFailed", message)
        for each, counts in zip(members, found, strict=True):
            placed[each["name"]] = {**each, "topologyAssignment": _describe(counts)}
            _take(free, asked[each["name"]], counts)
    return [placed[each["name"]] for each in pod_sets]


def _find_topology(assignment: Object, flavors: Mapping[str, Object]) -> str:
    names = [flavors[each].get("spec", {}).get("topologyName", "") for each in assignment["flavors"].values()]
    return next(filter(None, names), "")


def _find_free(nodes: Iterable[Object], holders: Iterable[Object]) -> Free:
    free: Free = {
        node["metadata"]["name"]: Counter(
            {name: parse_quantity(text) for name, text in node["status"]["allocatable"].items()}
        )
        for node in nodes
    }
    for workload in holders:
        asked = {each["name"]: each for each in workload["spec"]["podSets"]}
        for each in workload["status"]["admission"]["podSetAssignments"]:
            _take(free, asked[each["name"]], dict(list_nodes(each)))
    return free


def _take(free: Free, pod_set: Object, counts: Mapping[str, int]) -> None:
    requests = count_requests(pod_set["template"])
    for node, count in counts.items():
        for name, amount in requests.items():
            if node in free:
                free[node][name] -= amount * count  # type: ignore[assignment]


def _list_domains(
    request: Object, levels: Sequence[str], flavor: Object, nodes: Sequence[Object]
) -> Iterator[list[Object]]:
    """The nodes of each domain that may have all pods; a preferred level gives way to all nodes."""
    wanted = flavor.get("nodeLabels", {}).items()
    usable = sorted(
        (each for each in nodes if wanted <= each["metadata"]["labels"].items()),
        key=lambda each: each["metadata"]["name"],
    )
    level = request.get("required") or request.get("preferred")
    if level is not None:
        above = levels[: levels.index(level) + 1]
        domains: dict[tuple[str, ...], list[Object]] = {}
        for node in usable:
            domains.setdefault(tuple(node["metadata"]["labels"].get(key, "") for key in above), []).append(node)
        yield from (domains[key] for key in sorted(domains))
    if request.get("required") is None:
        yield usable


def _fill(
    members: Sequence[Object], asked: Mapping[str, Object], domain: Sequence[Object], free: Free
) -> list[dict[str, int]] | None:
    """Returns the number of pods by node for each member, None if one has no room."""
    left: Free = {node["metadata"]["name"]: Counter(free[node["metadata"]["name"]]) for node in domain}
    found = []
    for each in members:
        template, counts, missing = asked[each["name"]]["template"], Counter[str](), each["count"]
        requests = {name: Decimal(amount) for name, amount in count_requests(template).items()}
        for name, room in left.items():
            while missing and _allows(template, name) and all(room[key] >= n for key, n in requests.items()):
                room.subtract(requests)
                counts[name] += 1
                missing -= 1
        if missing:
            return None
        found.append(dict(counts))
    return found


def _allows(template: Object, node: str) -> bool:
    """Whether the required node affinity by name allows the node: one of its terms must match."""
    affinity = template["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    return not terms or any(all(node not in e["values"] for e in term.get("matchFields", ())) for term in terms)


def _describe(counts: Mapping[str, int]) -> Object:
    """pkg/util/tas/tas_assignment.go, V1Beta2From, without its abbreviations."""
    values = {"individual": {"roots": list(counts)}}
    one = {"domainCount": len(counts), "valuesPerLevel": [values], "podCounts": {"individual": list(counts.values())}}
    return {"levels": [HOST], "slices": [one]}


def list_nodes(assignment: Object) -> Iterator[tuple[str, int]]:
    """Yields each node of a pod set's assignment with its number of pods."""
    for each in assignment.get("topologyAssignment", {}).get("slices", ()):
        yield from zip(each["valuesPerLevel"][0]["individual"]["roots"], each["podCounts"]["individual"], strict=True)


def is_placed(workload: Object) -> bool:
    """Whether some of its pods have nodes by its admission: pkg/workload/workload.go, IsAdmittedByTAS."""
    admission = workload["status"].get("admission", {})
    return is_true(workload, "Admitted") and any(map(list, map(list_nodes, admission.get("podSetAssignments", ()))))


def find_ungated(workload: Object, pods: Iterable[Object]) -> Iterator[tuple[Object, str]]:
    """Yields the gated pods of an admitted Workload that get a node now, with its name.

    pkg/controller/tas/topology_ungater.go, assignGatedPodsToDomainsGreedy.
    """
    if not is_true(workload, "Admitted") or is_true(workload, "Evicted"):
        return
    own = [each for each in pods if _belongs(each, workload)]
    for assignment in workload["status"]["admission"]["podSetAssignments"]:
        members = [each for each in own if each["metadata"]["labels"].get(POD_SET) == assignment["name"]]
        gated = [each for each in members if _is_gated(each)]
        taken = Counter(each["spec"].get("nodeSelector", {}).get(HOST) for each in members if not _is_gated(each))
        for node, count in list_nodes(assignment):
            for _ in range(min(count - taken[node], len(gated))):
                yield gated.pop(0), node


def _belongs(pod: Object, workload: Object) -> bool:
    """pkg/controller/tas/topology_ungater.go, podsForPodSet; pods without a mark are not looked at."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations", {})
    is_over = pod["status"].get("phase") in ("Succeeded", "Failed")
    is_marked = any(key in annotations for key in MARKS)
    return annotations.get(WORKLOAD) == workload["metadata"]["name"] and is_marked and not is_over


def _is_gated(pod: Object) -> bool:
    return any(each["name"] == GATE for each in pod["spec"].get("schedulingGates", ()))
