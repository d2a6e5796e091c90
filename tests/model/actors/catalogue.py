"""All actors by name, and for each the finding that has to be fixed before random schedules contain it."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.actors.actor import Actor
from tests.model.actors.denying_policy import DenyingPolicy
from tests.model.actors.eviction import Eviction
from tests.model.actors.node_shutdown import NodeShutdown, SpotReclaim
from tests.model.actors.refusing_kubelet import RefusingKubelet
from tests.model.actors.stray_pods import StrayPods


class Entry(NamedTuple):
    """`waits_for`: a finding that is not fixed yet, or an empty string."""

    actor: type[Actor]
    waits_for: str = ""


CATALOGUE: dict[str, Entry] = {
    "a refusing kubelet": Entry(RefusingKubelet),
    "a node that is shut down": Entry(NodeShutdown),
    "a spot machine that is taken away": Entry(SpotReclaim),
    "an eviction": Entry(Eviction),
    "stray pods": Entry(StrayPods),
    "a denying policy": Entry(DenyingPolicy),
}
ENABLED = frozenset(name for name, entry in CATALOGUE.items() if not entry.waits_for)
