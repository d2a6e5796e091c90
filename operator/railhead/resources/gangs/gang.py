"""What a gang is, and what each scheduler's file says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from railhead.json_object import Object


@dataclass(frozen=True)
class Gang:
    """The pods of one attempt, head and workers; a replaced worker pod joins the gang of its attempt.

    Attributes:
        name: of its PodGroup.
        least_pods: how many have to get a node at once, with which training can begin.
        priority_class, annotations: of the worker pods.
        domain: label of the nodes that all pods have to share; "" without scheduling.topology, or if it is preferred.
    """

    name: str
    least_pods: int
    priority_class: str
    annotations: Mapping[str, str]
    domain: str


@dataclass(frozen=True)
class PodGroup:
    """One version of a scheduler's PodGroup.

    Attributes:
        build_spec: its spec, as Kubernetes JSON.
    """

    api_version: str
    build_spec: Callable[[Gang], Object]


@dataclass(frozen=True)
class GangScheduler:
    """How one scheduler learns which pods are a gang.

    Attributes:
        pod_groups: the versions of its PodGroup that Railhead knows, the newest first; the API server may serve fewer.
        join: returns a pod as a member of the gang with this name; it may share parts with the given pod.
    """

    pod_groups: tuple[PodGroup, ...]
    join: Callable[[Object, str], Object]
