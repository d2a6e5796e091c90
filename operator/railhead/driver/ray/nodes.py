"""Ray's nodes: the live ones, and lost ones, which are found by probing their raylets and reported to Ray (GCS).

Ray's own health check detects a raylet that refuses connections after some 15 s, and one whose
packets are dropped, as those to a deleted pod are, after a minute. Until then Ray would start part
of the next worker group there and wait for it. Its patience is meant for a starved raylet, which
still accepts connections: a probe tells the two apart.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Iterable, Optional

from railhead.contract.job_input import WORKER_SLOT
from railhead.driver.container.hosts import HEAD_RESOURCE, is_listening
from railhead.driver.messages.exception_text import read_text
from railhead.driver.messages.log import log
from railhead.driver.ray.types import NodeInfo

# How long after one of its processes a node may be seen dead: the kernel kills
# a container's processes one after the other.
NODE_PATIENCE_SECONDS = 1.5
RAY_PATIENCE_SECONDS = 75.0  # in which Ray's own health check, 5 times 3 s and 10 s for an answer, notices a loss
# Nodes that do not answer, or a tenth of all: if more do not, only Ray knows which are lost.
FEW = 2
PROBE_TIMEOUT_SECONDS = 2.0
PARALLEL_PROBES = 32
ANSWER_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class LostNode:
    """A node that is gone. `node_id`: in hex; `address`, `host`: of its pod; `is_known`: Ray knows of the loss too."""

    node_id: str
    address: str
    is_known: bool
    host: str = ""


def wait_for_lost_nodes(node_ids: Iterable[str]) -> tuple[LostNode, ...]:
    """Returns those that are gone now or within NODE_PATIENCE_SECONDS; in doubt, within RAY_PATIENCE_SECONDS."""
    wanted = set(node_ids)
    began = time.monotonic()
    has_told = False
    while wanted:
        lost, is_in_doubt = _probe(wanted)
        if lost or time.monotonic() - began > (RAY_PATIENCE_SECONDS if is_in_doubt else NODE_PATIENCE_SECONDS):
            return lost
        if is_in_doubt and not has_told:
            has_told = True
            log(
                "the head does not reach many nodes, or not even its own, so its network may be the cause; "
                f"waiting for Ray's own health check, up to {RAY_PATIENCE_SECONDS:.0f} s"
            )
        time.sleep(0.25)
    return ()


def list_worker_nodes() -> frozenset[str]:
    """Returns the ids of the nodes that accept workers. Ray may list a lost one for some ten seconds more."""
    import ray

    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get(WORKER_SLOT))


def count_worker_slots() -> int:
    """Returns how many workers the live nodes have room for."""
    import ray

    return int(sum(node["Resources"].get(WORKER_SLOT, 0) for node in ray.nodes() if node["Alive"]))


def name_hosts(node_ids: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the pods of these nodes, also of dead ones; without those that Ray does not know."""
    import ray

    hosts = {node["NodeID"]: str(node["NodeManagerHostname"]) for node in ray.nodes()}
    return tuple(hosts[each] for each in node_ids if each in hosts)


def list_lost_nodes(node_ids: set[str]) -> tuple[LostNode, ...]:
    """Returns those that are dead according to Ray, or without a raylet that accepts connections."""
    return _probe(node_ids)[0]


def _probe(node_ids: set[str]) -> tuple[tuple[LostNode, ...], bool]:
    """Returns the lost ones, and whether the probes are in doubt: then only those that Ray lists as dead.

    A head that can open no new connection, because its node's connection tracking is full or it has too many open
    files, reaches no node, while Ray's own connections to all of them stay open.
    """
    import ray

    try:
        nodes = {node["NodeID"]: node for node in ray.nodes()}
    except Exception:
        return (), False
    with ThreadPoolExecutor(PARALLEL_PROBES) as pool:
        found = pool.map(lambda node_id: _find_loss(node_id, nodes.get(node_id)), sorted(node_ids))
    lost = tuple(each for each in found if each)
    known = tuple(each for each in lost if each.is_known)
    silent = len(lost) - len(known)
    alive = [node for node in nodes.values() if node["Alive"]]
    heads = (node for node in alive if HEAD_RESOURCE in node["Resources"])
    are_many = silent > max(FEW, len(alive) // 10)
    if are_many or (silent > 0 and not all(map(_answers, heads))):
        return (known, True)
    return (lost, False)


def _find_loss(node_id: str, node: Optional[NodeInfo]) -> Optional[LostNode]:
    if node is None:
        return LostNode(node_id, node_id[:8], is_known=True)
    if node["Alive"] and _answers(node):
        return None
    address = str(node["NodeManagerAddress"])
    host = str(node["NodeManagerHostname"])
    return LostNode(node_id, address, is_known=not node["Alive"], host=host)


def _answers(node: NodeInfo) -> bool:
    return is_listening(str(node["NodeManagerAddress"]), node["NodeManagerPort"], timeout=PROBE_TIMEOUT_SECONDS)


def confirm_lost(lost: Iterable[LostNode]) -> tuple[LostNode, ...]:
    """Returns those that Ray lists as dead, or that a second probe finds gone too."""
    found = tuple(lost)
    unknown = {node.node_id for node in found if not node.is_known}
    again = list_lost_nodes(unknown) if unknown else ()
    return (*(node for node in found if node.is_known), *again)


def mark_dead_in_ray(lost: Iterable[LostNode]) -> None:
    """Unregisters nodes that Ray still lists as alive. Never raises.

    A raylet that is alive after all learns of its own death and exits, and its pod is replaced. If
    unregistering fails, such as in an image without grpcio, Ray detects the loss in its own time.
    """
    for node in lost:
        if node.is_known:
            continue
        try:
            _unregister(node)
        except Exception as error:
            why = f"{type(error).__name__}: {read_text(error)}".splitlines()[0]
            advice = "; add grpcio to spec.image" if isinstance(error, ImportError) else ""
            log(
                f"cannot notify Ray that node {node.address} is lost ({why}{advice}); "
                "its own health check will detect it"
            )
        else:
            log(f"notified Ray that node {node.address} is lost")


def _unregister(node: LostNode) -> None:
    """Sends what a raylet sends to the GCS when it exits. tests/ray checks the contract, per Ray version."""
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

    import ray

    request = gcs_service_pb2.UnregisterNodeRequest(node_id=bytes.fromhex(node.node_id))
    request.node_death_info.reason = request.node_death_info.UNEXPECTED_TERMINATION
    request.node_death_info.reason_message = "Railhead takes the node for lost"
    with init_grpc_channel(ray.get_runtime_context().gcs_address) as channel:
        gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel).UnregisterNode(request, timeout=ANSWER_TIMEOUT_SECONDS)
