"""Whether the nodes that joined have the GPUs that `scaling.acceleratorType` requests. Pure.

Ray detects the type of a real GPU by itself when a node starts, as a resource of the node.
It would wait forever for a node with the right type; but Kubernetes decides which nodes there
are, and each of them is meant to run workers. So the first wrong node is conclusive.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from railhead.contract.job_input import JobInput

PREFIX = "accelerator_type:"  # of the resource; RESOURCE_CONSTRAINT_PREFIX in ray.util.accelerators


def find_wrong_accelerator(job: JobInput, nodes: Sequence[Mapping[str, Any]]) -> str:
    """The problem with these worker nodes from `ray.nodes()`, or an empty string."""
    wanted = job.scaling.get("acceleratorType")
    if not wanted:
        return ""
    for node in nodes:
        if PREFIX + wanted not in node["Resources"]:
            return _describe(wanted, node)
    return ""


def _describe(wanted: str, node: Mapping[str, Any]) -> str:
    found = sorted(name[len(PREFIX) :] for name in node["Resources"] if name.startswith(PREFIX))
    what = f"has {' and '.join(found)}" if found else "has no GPU of a type that Ray knows"
    return (
        f"scaling.acceleratorType {wanted}: the worker pod at {node['NodeManagerAddress']} {what}; choose nodes with "
        "worker.podTemplate.spec.nodeSelector or scaling.rayLabelSelector, or fix acceleratorType (Ray's names: "
        "ray.util.accelerators)"
    )
