"""Which of the nodes that joined lack the GPU type that `scaling.acceleratorType` requests. Pure.

Ray detects the type of a real GPU by itself when a node starts, as a resource of the node. It
would wait forever for a node with the right type; but Kubernetes decides which nodes there are.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from railhead.contract.job_input import JobInput

PREFIX = "accelerator_type:"  # of the resource; RESOURCE_CONSTRAINT_PREFIX in ray.util.accelerators
Node = Mapping[str, Any]  # an entry of `ray.nodes()`


def find_wrong_nodes(job: JobInput, nodes: Sequence[Node]) -> list[Node]:
    wanted = job.scaling.get("acceleratorType")
    return [node for node in nodes if PREFIX + wanted not in node["Resources"]] if wanted else []


def refuse(job: JobInput, node: Node) -> str:
    """For a job none of whose nodes has the type: the field is wrong, or the choice of nodes."""
    return (
        f"{_describe(job, node)}; choose nodes with worker.podTemplate.spec.nodeSelector or scaling.rayLabelSelector, "
        "or fix acceleratorType (Ray's names: ray.util.accelerators)"
    )


def warn(job: JobInput, node: Node) -> str:
    """For one node among others: its GPU does not answer, or it is of another pool."""
    return f"{_describe(job, node)}; the pod is replaced. If the same node is chosen again, check its GPU and cordon it"


def _describe(job: JobInput, node: Node) -> str:
    found = sorted(name[len(PREFIX) :] for name in node["Resources"] if name.startswith(PREFIX))
    what = f"has {' and '.join(found)}" if found else "has no GPU of a type that Ray knows"
    where = f"worker pod {node['NodeManagerHostname']} at {node['NodeManagerAddress']}"
    return f"scaling.acceleratorType {job.scaling['acceleratorType']}: {where} {what}"
