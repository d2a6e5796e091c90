"""Which flavors and counts a Workload gets, and which others it preempts: Kueue's scheduler for one ClusterQueue.

Quantities are Decimals in the resource's unit; a usage has them by (flavor, resource). Nothing here is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from railhead.api.quantities import parse_quantity
from tests.kueue.workload import Object, get_transition, is_true

Usage = Counter[tuple[str, str]]


class DoesNotFit(Exception):
    """No flavor suits, or the quota is always too small; the arguments are Kueue's reason and message."""

    @property
    def reason(self) -> str:
        return str(self.args[0])

    @property
    def message(self) -> str:
        return str(self.args[1])


@dataclass(frozen=True)
class Assignment:
    """What the Workload would get; `missing` has what is not free, and is empty if it fits now."""

    pod_sets: tuple[Object, ...]
    missing: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)


def get_priority(workload: Object) -> int:
    """pkg/util/priority/priority.go, Priority."""
    return int(workload["spec"].get("priority", 0))


def count_requests(template: Object) -> dict[str, Decimal]:
    """Returns one pod's requests: pkg/resources/requests.go, NewRequestsFromPodSpec; the limits stand in for them."""
    spec = template["spec"]
    total: Counter[str] = Counter()
    for container in spec["containers"]:
        total.update(_of_container(container))
    for container in spec.get("initContainers", ()):
        for name, amount in _of_container(container).items():
            total[name] = max(total[name], amount)  # type: ignore[assignment]
    return {name: Decimal(amount) for name, amount in total.items()}


def _of_container(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources", {})
    requests = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {name: parse_quantity(str(text)) for name, text in requests.items()}


def count_usage(workloads: Iterable[Object]) -> Usage:
    """Returns what they hold: pkg/workload/workload.go, totalRequestsFromAdmission, without reclaimable pods, which are
    subtracted from what was asked for, not from what was admitted (podSetsCountsAfterReclaim)."""
    usage: Usage = Counter()
    for workload in workloads:
        given_back = {each["name"]: each["count"] for each in workload["status"].get("reclaimablePods", ())}
        asked = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
        for each in workload["status"]["admission"]["podSetAssignments"]:
            left = max(0, asked[each["name"]] - given_back.get(each["name"], 0))
            share = Decimal(min(left, each["count"])) / max(1, each["count"])
            for resource, flavor in each["flavors"].items():
                amount = parse_quantity(str(each["resourceUsage"][resource])) * share
                usage[flavor, resource] += amount
    return usage


def nominate(
    workload: Object, queue: Object, flavors: Mapping[str, Object], holders: Sequence[Object]
) -> tuple[Assignment, list[Object]]:
    """Returns what the Workload gets, and the holders to preempt for it first.

    pkg/scheduler/scheduler.go, getAssignments: all pods if they fit or may preempt, else as many as minCount allows.
    Raises DoesNotFit.
    """
    waits: Assignment | None = None
    problem: DoesNotFit | None = None
    for reduced in _reductions(workload["spec"]["podSets"]):
        try:
            found = assign(reduced, queue, flavors, count_usage(holders))
        except DoesNotFit as error:
            problem = problem or error
            continue
        victims = choose_victims(workload, reduced, queue, flavors, holders) if found.missing else []
        if victims or not found.missing:
            return found, victims
        waits = waits or found
    if waits is None:
        raise problem or AssertionError("a Workload without pod sets")
    return waits, []


def _reductions(pod_sets: Sequence[Object]) -> Iterator[list[Object]]:
    """pkg/scheduler/flavorassigner/podset_reducer.go, Search, from all pods down to minCount."""
    span = max(each["count"] - each.get("minCount", each["count"]) for each in pod_sets)
    for less in range(span + 1):
        yield [{**each, "count": each["count"] - less} if "minCount" in each else each for each in pod_sets]


def assign(pod_sets: Sequence[Object], queue: Object, flavors: Mapping[str, Object], used: Usage) -> Assignment:
    """pkg/scheduler/flavorassigner/flavorassigner.go, assignFlavors. Raises DoesNotFit."""
    groups: dict[str, list[Object]] = {}
    for pod_set in pod_sets:  # those of a group get the same flavors
        groups.setdefault(pod_set.get("topologyRequest", {}).get("podSetGroupName", pod_set["name"]), []).append(
            pod_set
        )
    own: Usage = Counter()
    assigned: dict[str, Object] = {}
    for members in groups.values():
        needs: Counter[str] = Counter()
        for each in members:
            for resource, amount in count_requests(each["template"]).items():
                needs[resource] += amount * each["count"]
        chosen = _choose_flavors(members, needs, queue, flavors, used + own)
        for resource, flavor in chosen.items():
            own[flavor, resource] += needs[resource]
        for each in members:
            requests = {name: n for name, n in count_requests(each["template"]).items() if name in chosen}
            assigned[each["name"]] = {
                "name": each["name"],
                "flavors": {name: chosen[name] for name in requests},
                "resourceUsage": {name: f"{n * each['count']:f}" for name, n in requests.items()},
                "count": each["count"],
            }
    quotas = get_quotas(queue)
    over = {key: used[key] + own[key] - quotas[key] for key in own}
    return Assignment(
        tuple(assigned[each["name"]] for each in pod_sets), {k: Decimal(v) for k, v in over.items() if v > 0}
    )


def _choose_flavors(
    members: Sequence[Object],
    needs: Mapping[str, Decimal | int],
    queue: Object,
    flavors: Mapping[str, Object],
    used: Usage,
) -> dict[str, str]:
    """flavorassigner.go, findFlavorForPodSets: the first flavor with free quota, else the first with enough for it."""
    chosen: dict[str, str] = {}
    covered = {name for group in queue["spec"].get("resourceGroups", ()) for name in group["coveredResources"]}
    for resource in sorted(needs):
        if resource not in covered and needs[resource]:
            reason = f"resource {resource} unavailable in ClusterQueue"
            raise DoesNotFit("NoMatchingFlavor", f"couldn't assign flavors to pod set {members[0]['name']}: {reason}")
    quotas = get_quotas(queue)
    for group in queue["spec"].get("resourceGroups", ()):
        wanted = {name: Decimal(needs[name]) for name in group["coveredResources"] if name in needs}
        reasons: list[tuple[str, str]] = []
        best = ""
        for flavor in (each["name"] for each in group["flavors"]) if wanted else ():
            if problem := find_mismatch(flavor, flavors.get(flavor), members):
                reasons.append(("NoMatchingFlavor", problem))
                continue
            too_much = [name for name in wanted if wanted[name] > quotas[flavor, name]]
            if too_much:
                said = f"insufficient quota for {too_much[0]} in flavor {flavor}"
                detail = f"request ({wanted[too_much[0]]:f}) > maximum capacity ({quotas[flavor, too_much[0]]:f})"
                reasons.append(("ExceedsMaxQuota", f"{said}, previously considered podsets requests (0) + {detail}"))
                continue
            best = best or flavor
            if all(used[flavor, name] + amount <= quotas[flavor, name] for name, amount in wanted.items()):
                best = flavor
                break
        if wanted and not best:
            said = ", ".join(text for _, text in reasons)
            raise DoesNotFit(reasons[-1][0], f"couldn't assign flavors to pod set {members[0]['name']}: {said}")
        chosen |= dict.fromkeys(wanted, best)
    return chosen


def get_quotas(queue: Object) -> dict[tuple[str, str], Decimal]:
    """Returns the nominal quotas of a ClusterQueue without a cohort."""
    return {
        (flavor["name"], each["name"]): parse_quantity(str(each["nominalQuota"]))
        for group in queue["spec"].get("resourceGroups", ())
        for flavor in group["flavors"]
        for each in flavor["resources"]
    }


def find_mismatch(name: str, flavor: Object | None, members: Sequence[Object]) -> str:
    """flavorassigner.go, checkFlavorForPodSets: untolerated taints, and labels that a node selector excludes."""
    if flavor is None:
        return f"flavor {name} not found"
    spec = flavor.get("spec", {})
    for each in members:
        pod = each["template"]["spec"]
        tolerations = [*pod.get("tolerations", ()), *spec.get("tolerations", ())]
        for taint in spec.get("nodeTaints", ()):
            if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in tolerations):
                return (
                    f"untolerated taint {{{taint['key']} {taint.get('value', '')} {taint['effect']}}} in flavor {name}"
                )
        labels = spec.get("nodeLabels", {})
        if any(labels[key] != value for key, value in pod.get("nodeSelector", {}).items() if key in labels):
            return f"flavor {name} doesn't match node affinity"
    return ""


def _tolerates(toleration: Object, taint: Object) -> bool:
    """k8s.io/api/core/v1/toleration.go, ToleratesTaint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def choose_victims(
    workload: Object,
    pod_sets: Sequence[Object],
    queue: Object,
    flavors: Mapping[str, Object],
    holders: Sequence[Object],
) -> list[Object]:
    """Returns as few of the holders as possible, or none: pkg/scheduler/preemption/preemption.go, classicalPreemptions.

    The order is that of preemption/common/ordering.go, CandidatesOrdering.
    """
    policy = queue["spec"].get("preemption", {}).get("withinClusterQueue", "Never")
    mine, created = get_priority(workload), workload["metadata"]["creationTimestamp"]

    def may_go(other: Object) -> bool:
        is_newer = policy == "LowerOrNewerEqualPriority" and other["metadata"]["creationTimestamp"] > created
        return get_priority(other) < mine or (is_newer and get_priority(other) == mine)

    def order(other: Object) -> tuple[bool, int, float, str]:
        since: datetime = get_transition(other, "QuotaReserved")
        return not is_true(other, "Evicted"), get_priority(other), -since.timestamp(), other["metadata"]["uid"]

    def fits(gone: Sequence[Object]) -> bool:
        used = count_usage(each for each in holders if each not in gone)
        return not assign(pod_sets, queue, flavors, used).missing

    victims: list[Object] = []
    for candidate in sorted(filter(may_go, holders), key=order) if policy != "Never" else ():
        victims.append(candidate)
        if fits(victims):
            for earlier in victims[-2::-1]:  # fillBackWorkloads
                if fits(rest := [each for each in victims if each is not earlier]):
                    victims = rest
            return victims
    return []
