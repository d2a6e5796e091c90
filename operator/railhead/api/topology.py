"""spec.scheduling.topology: the part of the cluster in which the worker pods of an attempt stay together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.api.model import Model
from railhead.api.scaling import LabelKey

# For the whole spec.
TOPOLOGY_RULE = (
    ".scheduling.topology",
    "!has(self.scheduling) || !has(self.scheduling.topology) || "
    "(self.scaling.placementStrategy == 'STRICT_SPREAD' ? self.scheduling.topology.key != 'kubernetes.io/hostname' "
    ": self.scaling.placementStrategy != 'STRICT_PACK')",
    "does not fit scaling.placementStrategy: STRICT_PACK has one worker pod only, and STRICT_SPREAD needs domains of "
    "several nodes",
)


class Topology(Model):
    """Nodes with the same value of a label are one domain, such as a rack; worker pods stay within one."""

    key: LabelKey = Field(description="Label of the nodes whose value names the domain of a node.")
    policy: Literal["Required", "Preferred"] = Field(
        default="Required",
        description="Required: a worker pod without room in the domain of the others waits. Preferred: it then gets a "
        "node elsewhere.",
    )
