"""What Ray waits to start: tasks, actors and placement groups for which no pod has the resources.

A rank that waits for such a task waits forever, since Ray knows that Kubernetes may still bring a node. One request to
the GCS answers it, in the form that Ray's autoscaler reads; tests/ray/test_contract.py checks the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Tuple

from railhead.driver.messages.exception_text import read_text
from railhead.driver.messages.log import log

ANSWER_TIMEOUT_SECONDS = 5.0
NAMED = 3
IN_GROUP = "_group_"  # in the name of a resource that a placement group has reserved
BUNDLE = "bundle"  # Ray's own resource of a placement group
_UNITS = {"memory": "bytes of memory", "object_store_memory": "bytes of object store memory"}

Resources = Mapping[str, float]


@dataclass(frozen=True)
class Demand:
    """Tasks, actors or parts of a placement group that wait, and what each of them needs."""

    count: int
    needs: Resources

    def fits(self, has: Resources) -> bool:
        return all(has.get(name, 0) >= amount for name, amount in self.needs.items())


def describe_demand() -> str:
    """Returns what Ray waits to start, as a sentence; "" if nothing waits, or if Ray does not say. Never raises."""
    import ray

    if not ray.is_initialized():
        # Asking for the address would start a cluster.
        return ""
    try:
        state = _ask_gcs()
        return write_demand(_list_demands(state), list(state.node_states))
    except Exception as error:
        log(f"cannot read what Ray waits to start ({type(error).__name__}: {read_text(error)})")
        return ""


def _ask_gcs() -> Any:
    """Returns a ClusterResourceState of ray.core.generated.autoscaler_pb2."""
    from ray.core.generated.autoscaler_pb2 import GetClusterResourceStateReply

    import ray
    from ray import _raylet

    client = _raylet.GcsClient(address=ray.get_runtime_context().gcs_address)  # type: ignore[attr-defined]  # compiled
    reply = GetClusterResourceStateReply()
    reply.ParseFromString(client.get_cluster_resource_state(timeout_s=ANSWER_TIMEOUT_SECONDS))
    return reply.cluster_resource_state


def _list_demands(state: Any) -> List[Demand]:
    found = [Demand(each.count, dict(each.request.resources_bundle)) for each in state.pending_resource_requests]
    for group in state.pending_gang_resource_requests:
        found += [Demand(1, dict(each.resources_bundle)) for each in group.requests]
    return found


def write_demand(demands: Iterable[Demand], nodes: Iterable[Any]) -> str:
    """Returns the demands that no pod can meet now, those that none ever can first."""
    known: Tuple[Any, ...] = tuple(nodes)
    impossible = []
    waiting = []
    for demand in demands:
        if any(demand.fits(node.available_resources) for node in known):
            continue
        if any(demand.fits(node.total_resources) for node in known):
            waiting.append(f"{_describe(demand)}, which no pod has free")
        else:
            impossible.append(f"{_describe(demand)}, which no pod has")
    found = impossible + waiting
    if not found:
        return ""
    more = ""
    if len(found) > NAMED:
        more = f"; and {len(found) - NAMED} more kinds"
    return f"Ray waits to start {'; '.join(found[:NAMED])}{more}"


def _describe(demand: Demand) -> str:
    what = "1 task or actor that needs"
    if demand.count != 1:
        what = f"{demand.count} tasks or actors that need"
    amounts = []
    for name in sorted(demand.needs):
        plain, mark, _ = name.partition(IN_GROUP)
        if plain == BUNDLE:
            continue
        where = ""
        if mark:
            where = " of a placement group"
        amounts.append(f"{demand.needs[name]:g} {_UNITS.get(plain, plain)}{where}")
    return f"{what} {', '.join(amounts) or 'a placement group'}"
